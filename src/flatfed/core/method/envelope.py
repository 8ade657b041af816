"""Envelopes: what travels between the server of a federation and its sites.

A kind, a few facts as JSON, and parts that are bytes of their own (messages, jobs, replies). Like those, never pickle,
versioned and bounded: what is read is checked, and forged or oversized bytes are a `WireError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.method.wire import WireError

MAGIC = b"flatfed"
VERSION = 1
PREFIX = len(MAGIC) + 1 + 4
"""Bytes before the header: the word, the version, the length of the header."""
MOST_HEADER_BYTES = 1 << 24


@dataclass(frozen=True)
class Envelope:
    """What is asked of a site, or answered by it."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[bytes] = ()

    def to_bytes(self) -> bytes:
        """Return the bytes that travel."""
        content = {"kind": self.kind, "facts": dict(self.facts), "sizes": [len(part) for part in self.parts]}
        header = json.dumps(content).encode()
        prefix = MAGIC + bytes([VERSION]) + len(header).to_bytes(4, "big")
        return b"".join([prefix, header, *self.parts])

    @classmethod
    def from_bytes(cls, data: bytes, limit: int | None = None) -> Envelope:
        """Read an envelope of at most `limit` bytes."""
        if limit is not None and len(data) > limit:
            raise WireError(f"{len(data):,} bytes, above the bound {limit:,}")
        start = _header_end(data)
        kind, facts, sizes = _header(data[PREFIX:start])
        if sum(sizes) != len(data) - start:
            raise WireError("these bytes are cut off, or longer than their header says")
        return cls(kind, facts, _split(data, start, sizes))


def _header_end(data: bytes) -> int:
    """Return where the header ends."""
    if len(data) < PREFIX or not data.startswith(MAGIC):
        raise WireError("these bytes are no flatfed envelope")
    version = data[len(MAGIC)]
    if version != VERSION:
        raise WireError(
            f"this envelope has the version {version}, and this flatfed speaks {VERSION}; take the same release of "
            "flatfed on both sides"
        )
    size = int.from_bytes(data[len(MAGIC) + 1 : PREFIX], "big")
    if size > min(MOST_HEADER_BYTES, len(data) - PREFIX):
        raise WireError(f"a header of {size:,} bytes is too long")
    return PREFIX + size


def _header(text: bytes) -> tuple[str, dict[str, Any], list[int]]:
    try:
        content = json.loads(text)
        kind, facts, sizes = content["kind"], content["facts"], content["sizes"]
    except Exception as error:  # whatever forged bytes bring about
        raise WireError(f"the header of an envelope cannot be read: {error}") from None
    if not isinstance(kind, str) or not isinstance(facts, dict) or not isinstance(sizes, list):
        raise WireError("the header of an envelope is not what it should be")
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise WireError("the parts of an envelope have sizes that are none")
    return kind, facts, sizes


def _split(data: bytes, start: int, sizes: list[int]) -> list[bytes]:
    parts: list[bytes] = []
    for size in sizes:
        parts.append(data[start : start + size])
        start += size
    return parts
