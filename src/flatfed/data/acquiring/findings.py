"""What a check finds: one thing that was looked at, with what was expected."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, WRONG = "ok", "note", "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found, what was expected, and whether the two fit."""

    what: str
    found: str
    expected: str = ""
    state: str = OK


def count_finding(what: str, count: int, expected: int | None) -> Finding:
    """Compare a count with the expected one, where that is known."""
    if expected is None:
        return Finding(what, f"{count:,}")
    return Finding(what, f"{count:,}", f"{expected:,}", ok_if(count == expected))


def ok_if(fits: bool) -> str:
    """Return the state of what must fit."""
    if fits:
        return OK
    return WRONG
