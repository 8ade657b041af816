"""Keys of the sites' nodes, as `ssh-keygen -t ecdsa -b 384` would make them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class NodeKey:
    """A node's key pair in OpenSSH's format."""

    private: bytes
    public: bytes

    @property
    def fingerprint(self) -> str:
        """The public key's fingerprint."""
        return public_fingerprint(self.public)


def make_node_key(comment: str) -> NodeKey:
    """Make a key pair; the comment says whose it is."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return NodeKey(private, public + b" " + comment.encode() + b"\n")


def public_half(private: bytes) -> bytes:
    """Return the public key that belongs to a private one, without a comment; `ValueError` where there is none."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

    key = load_ssh_private_key(private, password=None)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def without_comment(public: bytes) -> bytes:
    """Return the kind and the bytes of a public key: two files may differ in the comment alone."""
    return b" ".join(public.split()[:2])


def public_fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public key, as `ssh-keygen -l` prints it; `ValueError` where it is none."""
    parts = public.split()
    if len(parts) < 2:
        raise ValueError("not a public key in OpenSSH's format")
    digest = hashlib.sha256(base64.b64decode(parts[1], validate=True)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
