"""The certificates of a federation: its own authority, and the server's certificate; both with keys on P-384."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from flatfed.deploy.deployment import as_address

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

EARLY = timedelta(minutes=5)
"""Certificates begin a little before they are made: clocks differ."""


@dataclass(frozen=True)
class Issued:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey

    @property
    def certificate_text(self) -> bytes:
        """The certificate as PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_text(self) -> bytes:
        """The private key as PEM, not encrypted: a service reads it when nobody is there to type."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True)
class Validity:
    """From when to when a certificate is valid."""

    start: datetime
    end: datetime


def valid_for(days: int) -> Validity:
    """Return the days from now on."""
    now = datetime.now(UTC).replace(microsecond=0)
    return Validity(now - EARLY, now + timedelta(days=days))


def make_authority(validity: Validity) -> Issued:
    """Make an authority of the federation's own, which can issue certificates and nothing below itself."""
    from cryptography import x509

    key = _new_key()
    name = _named("flatfed federation authority")
    builder = (
        _begun(name, name, key, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Issued(_signed(builder, key), key)


def make_server_certificate(authority: Issued, hosts: Sequence[str], validity: Validity) -> Issued:
    """Make the server's certificate for the names and addresses by which it is reached."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = _new_key()
    issuer = authority.certificate
    builder = (
        _begun(_named("flatfed federation server"), issuer.subject, key, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)  # type: ignore[arg-type]
    )
    return Issued(_signed(builder, authority.key), key)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate, as `openssl x509 -fingerprint -sha256` prints it."""
    from cryptography.hazmat.primitives.hashes import SHA256

    return certificate.fingerprint(SHA256()).hex(":").upper()


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses that a certificate is for."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP384R1())


def _named(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None = as_address(host)
    if address is None:
        return x509.DNSName(host)
    return x509.IPAddress(address)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, validity: Validity
) -> x509.CertificateBuilder:
    """Return a builder with what every certificate has."""
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.start)
        .not_valid_after(validity.end)
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives.hashes import SHA384

    return builder.sign(key, SHA384())


def _usage(authority: bool) -> x509.KeyUsage:
    """Return what a key may be used for: an authority signs certificates, a server signs handshakes."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
