"""Seals: a SHA-256 is written with what it covers, so that a changed file is refused and never taken for results."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

KEY = "seal"
FORMAT = 2
"""The format of a record that carries a seal; those of format 1 are of earlier versions."""

SHORT = 16
"""How many characters of a hash a line of many carries, to stay short: a change goes unseen once in 2**64."""
SHORT_SEAL = re.compile(rf', "{KEY}": "([0-9a-f]{{{SHORT}}})"}}\Z'.encode())


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def seal_of(value: Mapping[str, Any]) -> str:
    """Return the seal of a JSON object; the order of its keys and its white space do not matter."""
    return digest(_canonical(value))


def _canonical(value: Mapping[str, Any]) -> bytes:
    """Return a JSON object in one form, whatever the order of its keys."""
    # Read back first: keys that are numbers become text, and are then in another order.
    return json.dumps(json.loads(json.dumps(value)), sort_keys=True).encode()


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its seal."""
    return {**value, KEY: seal_of(value)}


def is_sealed(value: Mapping[str, Any]) -> bool:
    """Say whether a JSON object carries a seal."""
    return KEY in value


def should_be_sealed(value: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is of a format that has a seal."""
    return value.get("format") == FORMAT


def opened(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a sealed JSON object without its seal; None where the two do not agree."""
    content = {name: entry for name, entry in value.items() if name != KEY}
    try:
        expected = seal_of(content)
    except RecursionError:  # nested more deeply than anything that was ever written
        return None
    if value[KEY] != expected:
        return None
    return content


def chained(line: bytes, before: str) -> str:
    """Return the hash of a line and of the hash of what stands `before` it."""
    return digest(before.encode() + line)


def line_seal(value: Mapping[str, Any], before: str) -> str:
    """Return the seal of one line of JSON, which also covers the seal of what stands `before` it."""
    return chained(_canonical(value), before)


def sealed_line(value: Mapping[str, Any], before: str) -> bytes:
    """Return a line of JSON with its seal."""
    return json.dumps({**value, KEY: line_seal(value, before)}).encode() + b"\n"


def sealed_in_chain(line: bytes, chain: str) -> bytes:
    """Return a JSON object in a line, sealed by the chained hash of the lines up to it."""
    return line.removesuffix(b"}") + f', "{KEY}": "{chain[:SHORT]}"}}'.encode()


def opened_in_chain(line: bytes) -> tuple[bytes, str]:
    """Return a line as it was before it was sealed in a chain, and its seal; empty where there is none."""
    found = SHORT_SEAL.search(line)
    if found is None:
        return line, ""
    return line[: found.start()] + b"}", found[1].decode()


def fits_chain(seal: str, chain: str) -> bool:
    """Say whether a line's seal is that of the chained hash of the lines up to it."""
    return seal == chain[:SHORT]
