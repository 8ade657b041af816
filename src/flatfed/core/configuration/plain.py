"""What a file may hold whatever it is for: bounded nesting, numbers of at most 64 bits, text that can be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

DEEPEST = 100
"""Levels of lists and mappings inside one another; Python gives up at about a thousand calls."""
LARGEST = 2**63 - 1
"""The largest whole number: what a tensor, an array or a seed can hold."""
SHOWN = 60
"""Characters of a value that a message shows."""


def shown(value: Any) -> str:
    """Return a value for a message: short, and without characters that cannot be printed."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # ValueError: a number with thousands of digits
        return f"a {type(value).__name__} that is too large to show"
    if len(text) > SHOWN:
        return f"{text[:SHOWN]}..."
    return text


_COMMANDS_TO_TERMINALS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line break, those that change the direction of writing, and halves of characters."""


def escaped(text: str) -> str:
    r"""Return a text that a terminal shows and does not obey: `\x1b` in place of the character."""
    return _COMMANDS_TO_TERMINALS.sub(_as_code, text)


def _as_code(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def fault_of_text(text: str) -> str:
    """Return why a text cannot be used: it would fail as a path, or as soon as it is printed; empty where it can."""
    if "\0" in text:
        return "holds a NUL character"
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:  # Python's stand-ins for bytes that are not UTF-8; no file or terminal takes them
        return "is not UTF-8 text"
    return ""


def fault(value: Any) -> str:
    """Return what is wrong with values as JSON or YAML gives them, however deep inside; empty where nothing is."""
    # With a list of what is left and not by calls: the nesting may be deeper than Python can follow.
    left = [(value, 0)]
    while left:
        part, depth = left.pop()
        if depth > DEEPEST:
            return f"it is nested more than {DEEPEST} levels deep"
        problem = _fault_of_one(part)
        if problem:
            return problem
        left += [(inner, depth + 1) for inner in _inside(part)]
    return ""


def _inside(value: Any) -> Iterator[Any]:
    """Yield what a list or a mapping holds, with the keys."""
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _fault_of_one(value: Any) -> str:
    if isinstance(value, str):
        problem = fault_of_text(value)
        return f"{shown(value)} {problem}" if problem else ""
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"{shown(value)} does not fit into 64 bits"
    return ""
