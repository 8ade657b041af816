"""The one grammar of what people write: `name`, or `name(value, key=value)`, several with a sign between them.

Methods (`feddyn(alpha=0.1)+sam`), measurements (`lpf(samples=20)`), augmentations (`crop-flip,cutout(8)`) and schedules
(`ramp(0.001, 0.15, 2000)`) are all written so; what the values mean is for those who asked to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flatfed.core.errors import ConfigError

_CALL = re.compile(r"(?P<name>[\w-]+)\s*(?P<brackets>\((?P<inside>.*)\))?", re.DOTALL)
_KEY = re.compile(r"\s*(?P<key>[\w.-]+)\s*=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True)
class Argument:
    """One argument as it is written: with its key, or by its place."""

    key: str | None
    value: str


@dataclass(frozen=True)
class Call:
    """A name with its arguments, as text."""

    name: str
    arguments: tuple[Argument, ...] = ()
    has_brackets: bool = False

    def by_name(self, names: Sequence[str]) -> dict[str, str]:
        """Return the arguments by key; one without a key has the key of its place among `names`."""
        values: dict[str, str] = {}
        for place, argument in enumerate(self.arguments):
            key = argument.key or self._key_at(place, names)
            if key in values:
                raise ConfigError(f"{self.name} is given {key} twice")
            values[key] = argument.value
        return values

    def _key_at(self, place: int, names: Sequence[str]) -> str:
        if place >= len(names):
            raise ConfigError(f"{self.name} takes {len(names)} values: {', '.join(names)}")
        return names[place]


def parse_call(text: str) -> Call | None:
    """Read `name` or `name(value, key=value)`; None where the text is nothing of the kind."""
    match = _CALL.fullmatch(text.strip())
    if match is None or not _balanced(text):
        return None
    inside = match["inside"] or ""
    arguments = tuple(_argument(part) for part in split(inside, ",") if part.strip())
    return Call(match["name"], arguments, match["brackets"] is not None)


def split(text: str, sign: str) -> list[str]:
    """Divide a text at a sign, wherever it stands outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == sign and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _argument(text: str) -> Argument:
    match = _KEY.fullmatch(text)
    if match is None:
        return Argument(None, text.strip())
    return Argument(match["key"], match["value"].strip())


def _balanced(text: str) -> bool:
    """Say whether every bracket is closed, and none before it was opened."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0
