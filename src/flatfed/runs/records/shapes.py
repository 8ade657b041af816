"""Shapes of what JSON holds: which names, and values of which types; a value that does not fit is told by its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from flatfed.core.configuration.plain import fault as fault_of_values
from flatfed.core.configuration.plain import shown


class Shape(Protocol):
    """What a value must be."""

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value, beginning with the place inside of it; empty where it fits."""
        ...


@dataclass(frozen=True)
class Kind:
    """A value of one of some types; `what` says it in words."""

    what: str
    types: tuple[type, ...]

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        # To Python, True is the number 1.
        if isinstance(value, bool) and bool not in self.types:
            return f" is {value}, not {self.what}"
        if not isinstance(value, self.types):
            return f" is {shown(value)}, not {self.what}"
        return ""


@dataclass(frozen=True)
class Maybe:
    """Null, or a value of a shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if value is None:
            return ""
        return self.shape.fault(value)


@dataclass(frozen=True)
class AtLeast:
    """A whole number that is not below another."""

    least: int

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        problem = WHOLE.fault(value)
        if not problem and value < self.least:
            return f" is {value}, below {self.least}"
        return problem


@dataclass(frozen=True)
class Each:
    """A list of values of one shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if not isinstance(value, list):
            return f" is {shown(value)}, not a list"
        return _first_fault((f"[{place}]", self.shape, entry) for place, entry in enumerate(value))


@dataclass(frozen=True)
class Named:
    """A mapping of any names to values of one shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if not isinstance(value, Mapping):
            return f" is {shown(value)}, not an object"
        return _first_fault((f".{name}", self.shape, entry) for name, entry in value.items())


@dataclass(frozen=True)
class ByClient:
    """A mapping of clients, whose numbers JSON has as text, to values of one shape."""

    shape: Shape

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        problem = Named(self.shape).fault(value)
        if problem:
            return problem
        for name in value:
            if not (name.isascii() and name.isdecimal()):
                return f" holds {shown(name)}, which is no client's number"
        return ""


@dataclass(frozen=True)
class Written:
    """Text of a pattern; `what` says it in words."""

    what: str
    pattern: str

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        problem = TEXT.fault(value)
        if not problem and re.fullmatch(self.pattern, value) is None:
            return f" is {shown(value)}, not {self.what}"
        return problem


@dataclass(frozen=True)
class Record:
    """A mapping with names that it must hold, and some that it may; others are not looked at unless it is `closed`."""

    must: Mapping[str, Shape] = field(default_factory=dict)
    may: Mapping[str, Shape] = field(default_factory=dict)
    closed: bool = False

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value."""
        if not isinstance(value, Mapping):
            return f" is {shown(value)}, not an object"
        missing = [name for name in self.must if name not in value]
        if missing:
            return f" lacks {', '.join(missing)}"
        known = {**self.must, **self.may}
        unknown = [name for name in value if name not in known]
        if self.closed and unknown:
            return f" holds {shown(unknown[0])}, which means nothing there"
        return _first_fault((f".{name}", known[name], entry) for name, entry in value.items() if name in known)


def _first_fault(parts: Iterable[tuple[str, Shape, Any]]) -> str:
    """Return what is wrong with the first part that does not fit, after its place."""
    for where, shape, value in parts:
        problem = shape.fault(value)
        if problem:
            return f"{where}{problem}"
    return ""


ANYTHING = Kind("anything", (object, bool))
TEXT = Kind("text", (str,))
TRUTH = Kind("true or false", (bool,))
WHOLE = Kind("a whole number", (int,))
NUMBER = Kind("a number", (int, float))
NUMBER_OR_TEXT = Kind("a number or the text of a schedule", (int, float, str))
OPTIONS = Named(ANYTHING)
CONFIGURED = Record({"id": TEXT})
COUNT, INDEX = AtLeast(1), AtLeast(0)


def fault_of(values: Any, shape: Shape) -> str:
    """Return what is wrong with what a file holds: values that nobody could use, then their types."""
    return fault_of_values(values) or shape.fault(values).removeprefix(".")
