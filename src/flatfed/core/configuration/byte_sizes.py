"""Amounts of memory as people write them: `2GB`, `512 MiB`."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from flatfed.core.configuration.checking import TextRule, shown
from flatfed.core.errors import ConfigError

UNLIMITED = "unlimited"
UNITS = {"": 1, "b": 1} | {
    f"{letter}{ending}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for ending, base in (("b", 1000), ("ib", 1024))
}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)


def byte_count(text: str) -> int | None:
    """Return how many bytes a text says; None for no bound."""
    if text == UNLIMITED:
        return None
    found = _WRITTEN.fullmatch(text.strip().lower())
    if found is None or found[2] not in UNITS:
        raise ConfigError(f"{shown(text)} is no amount of memory such as 2GB or 512MiB, and not {UNLIMITED!r}")
    return int(Fraction(found[1]) * UNITS[found[2]])


def byte_size(value: Any) -> str:
    """Return an amount of memory as text; a whole number counts bytes."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ConfigError(f"{shown(value)} is no amount of memory such as 2GB or 512MiB, and not {UNLIMITED!r}")
    byte_count(text)
    return text


ByteSize = Annotated[str, TextRule(byte_size)]
