"""What a value may be.

A parameter: numbers within ranges, schedules, and values checked against their annotations. A file, whatever it is for:
bounded nesting, numbers of at most 64 bits, text that can be shown.
"""

from __future__ import annotations

import math
import numbers
import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from flatfed.core.configuration.grammar import parse_call
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import PARAMETER, ConfigError


class Varying:
    """A number for every round."""

    def value(self, round: int) -> float:
        """Return the number of a round, from 0."""
        raise NotImplementedError

    def bounds(self) -> tuple[float, ...]:
        """Return numbers that enclose all that it takes."""
        raise NotImplementedError


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


@dataclass(frozen=True)
class Range:
    """The interval a number must lie in; an end marked open is excluded."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Say whether `value` lies inside."""
        if (value == self.low and self.open_low) or (value == self.high and self.open_high):
            return False
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return " and ".join([*self._lower_end(), *self._upper_end()]) or "a number"

    def _lower_end(self) -> list[str]:
        if self.low == -math.inf:
            return []
        return [f"{'greater than' if self.open_low else 'at least'} {self.low:g}"]

    def _upper_end(self) -> list[str]:
        if self.high == math.inf:
            return []
        return [f"{'less than' if self.open_high else 'at most'} {self.high:g}"]


@dataclass(frozen=True)
class Alias:
    """Another spelling of a choice, put in an annotation: it is taken, and replaced by what it stands for.

    `Annotated[Literal["mean", "official"], Alias("paper", "mean")]` keeps a name that was in use before.
    """

    spelling: str
    stands_for: str


@dataclass(frozen=True)
class TextRule:
    """How a text is read that stands for something else, put in an annotation; `read` returns it or refuses it."""

    read: Callable[[Any], str]


def range_of(hint: Any) -> Range | None:
    """Return the interval that an annotation asks for, perhaps one of several types; None where it asks for none."""
    if isinstance(hint, Range):
        return hint
    for part in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        allowed = range_of(part)
        if allowed is not None:
            return allowed
    return None


NonNegative = Annotated[float, Range(low=0.0)]
Positive = Annotated[float, Range(low=0.0, open_low=True)]
Fraction = Annotated[float, Range(low=0.0, high=1.0)]
Momentum = Annotated[float, Range(low=0.0, high=1.0, open_high=True)]
Decaying = Annotated[float, Range(low=0.0, open_low=True, high=1.0)]
Count = Annotated[int, Range(low=1)]
Index = Annotated[int, Range(low=0)]


def checked(hint: Any, value: Any, label: str, may_vary: bool = False) -> Any:
    """Return `value` as the annotation `hint` asks for it, or say in one sentence why it cannot be.

    Where it `may_vary`, a schedule may stand for a real number.
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _by_rule(args[1], args[0], value, label, may_vary)
    if origin is Literal:
        return _one_of(args, value, label)
    if origin in (Union, types.UnionType):
        return _any_of(args, value, label, may_vary)
    if hint in (float, int):
        return _numeric(hint, value, label, may_vary)
    if isinstance(getattr(hint, "registry", None), Registry):
        return _configured(hint, value, label)
    return _instance(hint, value, label)


def is_schedule(value: Any) -> bool:
    """Say whether a value is a schedule, or text that looks like one: letters, then brackets."""
    if not isinstance(value, str):
        return isinstance(value, Varying)
    call = parse_call(value)
    if call is None or not call.has_brackets:
        return False
    return call.name.isalpha() and call.name.islower()


def _numeric(hint: Any, value: Any, label: str, may_vary: bool) -> Any:
    """Return a number, whole or real, or a schedule of real ones."""
    if is_schedule(value):
        return _schedule(value, label, may_vary and hint is float)
    if hint is float:
        return _number(value, label)
    return _whole(value, label)


def _configured(hint: Any, value: Any, label: str) -> Any:
    """Return a member of a family: as it is, or made from its id or from what `to_dict` gave."""
    if isinstance(value, str):
        return _written(hint.registry, value)
    if isinstance(value, Mapping):
        if "id" not in value:
            usual = next(iter(hint.registry), "")
            raise ConfigError(f"{PARAMETER} needs an id, such as {usual!r}, not {dict(value)!r}", parameter=label)
        return hint.registry.from_dict(value)
    return _instance(hint, value, label)


def _written(family: Registry[Any], text: str) -> Any:
    """Return a member of a family as it is written: its id, perhaps with parameters in brackets."""
    call = parse_call(text)
    if call is None or not call.has_brackets:
        return family.make(text)
    # Here and not above: both are made of what this module has.
    from flatfed.core.configuration.config import parameters
    from flatfed.core.configuration.values import parse_value

    given = call.by_name(list(parameters(family.find(call.name))))
    return family.make(call.name, **{name: parse_value(value) for name, value in given.items()})


def _instance(hint: Any, value: Any, label: str) -> Any:
    if not isinstance(value, hint):
        raise ConfigError(f"{PARAMETER} must be {_name(hint)}, not {value!r}", parameter=label)
    return value


def _by_rule(rule: Range | Alias | TextRule, hint: Any, value: Any, label: str, may_vary: bool) -> Any:
    if isinstance(rule, TextRule):
        return _by_text_rule(rule, value, label)
    if isinstance(rule, Alias):
        meant = rule.stands_for if value == rule.spelling else value
        return checked(hint, meant, label, may_vary)
    return _in_range(rule, checked(hint, value, label, may_vary), label)


def _by_text_rule(rule: TextRule, value: Any, label: str) -> str:
    try:
        return rule.read(value)
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter=label) from None


def _in_range(allowed: Range, value: Any, label: str) -> Any:
    ends = value.bounds() if isinstance(value, Varying) else [value]
    if not all(allowed.holds(end) for end in ends):
        raise ConfigError(f"{PARAMETER} must be {allowed}, not {value}", parameter=label)
    return value


def _schedule(value: Any, label: str, may_vary: bool) -> Varying:
    if not may_vary:
        raise ConfigError(
            f"{PARAMETER} cannot change over the rounds; it must be one number, not {value}", parameter=label
        )
    if isinstance(value, Varying):
        return value
    # Here and not above: schedules are configurations, which are checked by this module.
    from flatfed.core.configuration.schedules import Schedule

    try:
        return Schedule.parse(value)
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter=label) from None


def _one_of(choices: tuple[Any, ...], value: Any, label: str) -> Any:
    if value not in choices:
        raise ConfigError(f"{PARAMETER} must be one of {', '.join(map(repr, choices))}, not {value!r}", parameter=label)
    return value


def _any_of(hints: tuple[Any, ...], value: Any, label: str, may_vary: bool) -> Any:
    if value is None and type(None) in hints:
        return None
    hint = next(h for h in hints if h is not type(None))
    return checked(hint, value, label, may_vary)


def _number(value: Any, label: str) -> float:
    number = _as_float(value)
    if not math.isfinite(number):
        raise ConfigError(f"{PARAMETER} must be a finite number, not {value!r:.40}", parameter=label)
    return number


def _as_float(value: Any) -> float:
    """Return a real number as Python's float; NaN for what is none, infinity for what is too large."""
    # To Python, True is the number 1; in a configuration it is a mistake.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _whole(value: Any, label: str) -> int:
    if not _is_whole(value):
        raise ConfigError(f"{PARAMETER} must be a whole number, not {value!r}", parameter=label)
    return int(value)


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        # Numbers in the text of a schedule are all read as real ones, counts among them.
        return value.is_integer()
    return isinstance(value, numbers.Integral)


def _name(hint: Any) -> str:
    return {bool: "true or false", str: "text"}.get(hint, getattr(hint, "__name__", str(hint)))
