"""The rules in which claims are said: four kinds, over the numbers of methods in settings.

A quantity is a method (`fedsam`), a method in a setting (`fedsam @ cifar10-0`), a difference of two of these
(`fedsam - fedavg @ cifar10-0`: the setting is that of both), or a plain number. A rule whose quantities name no setting
is meant in each setting of its claim, or in each of those that its own entry `in` lists.

| rule | says |
|---|---|
| `order: [a, [b, c], d]` with `is: lower` | a is lower than b and c, these lower than d; `ties: true`: or equal |
| `difference: [a, b]` with `between: [low, high]` | a - b lies there; a null is no bound |
| `ratio: [a, b]` with `between: [low, high]` | a / b lies there |
| `fails: [a, b]` with `trains: [c]`, `below: x` | a and b diverge or stay below x, c does not |

A quantity that is not of the claim's metric says so: `accuracy of fedsam`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flatfed.core.errors import ConfigError, nearest

AT, MINUS = " @ ", " - "
DIRECTIONS = ("lower", "higher")
KINDS_OF_RULES = {
    "order": ("order", "is", "ties", "in"),
    "difference": ("difference", "between", "in"),
    "ratio": ("ratio", "between", "in"),
    "fails": ("fails", "trains", "below", "in"),
}
"""Each kind of rule, by the entry that makes it one, with its entries."""


@dataclass(frozen=True)
class MethodPlace:
    """A method in a setting; an empty setting is each setting of the claim."""

    method: str
    setting: str = ""

    def within(self, setting: str) -> MethodPlace:
        """Return the same in a setting, if it names none itself."""
        return MethodPlace(self.method, self.setting or setting)

    def __str__(self) -> str:
        return f"{self.method}{AT}{self.setting}" if self.setting else self.method


@dataclass(frozen=True)
class Quantity:
    """A sum of numbers of methods in settings, each with its sign, and of a plain number."""

    places: tuple[tuple[int, MethodPlace], ...] = ()
    number: float = 0.0

    def within(self, setting: str) -> Quantity:
        """Return the same in a setting, where it names none itself."""
        return Quantity(tuple((sign, place.within(setting)) for sign, place in self.places), self.number)

    @property
    def names_settings(self) -> bool:
        """Whether it says in which settings it is meant; a plain number is meant in all."""
        return all(place.setting for _, place in self.places)

    def __str__(self) -> str:
        if not self.places:
            return f"{self.number:g}"
        settings = {place.setting for _, place in self.places}
        if len(settings) > 1:
            return MINUS.join(str(place) for _, place in self.places)
        methods = MINUS.join(place.method for _, place in self.places)
        return str(MethodPlace(methods, settings.pop()))


@dataclass(frozen=True)
class Pair:
    """One comparison of a rule: a quantity against another.

    Attributes:
        relation: `lower`, `higher`, `difference`, `ratio`, `fails` or `trains`.
        low: the least difference or ratio that is allowed; None for no bound.
        high: the largest.
    """

    relation: str
    left: Quantity
    right: Quantity
    ties: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def places(self) -> Iterator[MethodPlace]:
        """Every method that is compared, with its setting."""
        for _, place in (*self.left.places, *self.right.places):
            yield place

    @property
    def settings(self) -> tuple[str, ...]:
        """Every setting that it names."""
        return tuple(dict.fromkeys(place.setting for place in self.places if place.setting))

    def within_each(self, settings: Sequence[str]) -> Iterator[Pair]:
        """Yield the pair in each setting, or itself if it names its settings."""
        if self.left.names_settings and self.right.names_settings:
            yield self
            return
        for setting in settings:
            yield replace(self, left=self.left.within(setting), right=self.right.within(setting))


@dataclass(frozen=True)
class PairGroup:
    """Comparisons of a rule that speak of the same runs.

    Attributes:
        settings: that they name.
    """

    pairs: tuple[Pair, ...]
    settings: tuple[str, ...]

    def speaks(self, measured: Sequence[bool]) -> bool:
        """Say whether those pairs that were measured say something of the rule.

        Across settings they do only together; and who trains says nothing without one that should fail.
        """
        if len(self.settings) > 1:
            return all(measured)
        failing = [pair.relation == "fails" for pair in self.pairs]
        if any(failing):
            return any(is_there and fails for is_there, fails in zip(measured, failing, strict=True))
        return any(measured)


@dataclass(frozen=True)
class Rule:
    """What must hold: pairs, each meant in the settings that they name or in each setting of the claim."""

    kind: str
    pairs: tuple[Pair, ...]

    def pairs_in(self, settings: Sequence[str]) -> Iterator[Pair]:
        """Yield each pair in each setting that it is meant in."""
        for pair in self.pairs:
            yield from pair.within_each(settings)

    def groups_in(self, settings: Sequence[str]) -> Iterator[PairGroup]:
        """Yield the pairs of each setting together, or all of them where some compare settings."""
        pairs = tuple(self.pairs_in(settings))
        if self.is_across:
            every = tuple(dict.fromkeys(name for pair in pairs for name in pair.settings))
            yield PairGroup(pairs, every)
            return
        for named in dict.fromkeys(pair.settings for pair in pairs):
            yield PairGroup(tuple(pair for pair in pairs if pair.settings == named), named)

    @property
    def is_across(self) -> bool:
        """Whether some pair compares settings, or some are meant in other settings than others."""
        if any(len(pair.settings) > 1 for pair in self.pairs):
            return True
        by_comparison: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for pair in self.pairs:
            compared = (pair.relation, *(place.method for place in pair.places))
            by_comparison.setdefault(compared, set()).add(pair.settings)
        return len(set(map(frozenset, by_comparison.values()))) > 1

    @property
    def places(self) -> Iterator[MethodPlace]:
        """Every method that the rule names, with its setting."""
        for pair in self.pairs:
            yield from pair.places

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method that the rule names."""
        return tuple(dict.fromkeys(place.method for place in self.places))

    @property
    def settings(self) -> tuple[str, ...]:
        """Every setting that the rule names itself."""
        return tuple(dict.fromkeys(place.setting for place in self.places if place.setting))

    @property
    def needs_own_settings(self) -> bool:
        """Whether some quantity leaves its setting to the claim."""
        return any(not place.setting for place in self.places)


def read_rule(content: Any) -> Rule:
    """Return the rule that a mapping says."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"a rule holds `name: value` entries, not {content!r:.60}")
    kind = next((name for name in KINDS_OF_RULES if name in content), None)
    if kind is None:
        raise ConfigError(f"a rule has one of {', '.join(KINDS_OF_RULES)}, not {content!r:.60}")
    for name in content:
        if name not in KINDS_OF_RULES[kind]:
            raise ConfigError(nearest(str(name), KINDS_OF_RULES[kind], f"entry of the rule `{kind}`"))
    readers = {"order": _order, "difference": _bounded, "ratio": _bounded, "fails": _failing}
    rule = Rule(kind, tuple(readers[kind](kind, content)))
    if "in" not in content:
        return rule
    return replace(rule, pairs=tuple(rule.pairs_in([str(name) for name in _list("in", content["in"])])))


def _order(_: str, content: Mapping[str, Any]) -> Iterator[Pair]:
    direction, ties = content.get("is"), content.get("ties", False)
    if direction not in DIRECTIONS:
        raise ConfigError(f"`is` must be {' or '.join(DIRECTIONS)}, not {direction!r}")
    if not isinstance(ties, bool):
        raise ConfigError(f"`ties` must be true or false, not {ties!r}")
    groups = [_group(entry) for entry in _list("order", content["order"])]
    if len(groups) < 2:
        raise ConfigError("`order` needs at least two entries")
    for first, second in itertools.pairwise(groups):
        for left, right in itertools.product(first, second):
            yield Pair(str(direction), left, right, ties)


def _bounded(kind: str, content: Mapping[str, Any]) -> Iterator[Pair]:
    two = [read_quantity(entry) for entry in _list(kind, content[kind])]
    bounds = _list("between", content.get("between"))
    if len(two) != 2 or len(bounds) != 2:
        raise ConfigError(f"`{kind}` and `between` need two entries each")
    low, high = (None if bound is None else _number("between", bound) for bound in bounds)
    if low is None and high is None:
        raise ConfigError("`between` needs a bound")
    if low is not None and high is not None and low > high:
        raise ConfigError(f"`between` must not go down from {low:g} to {high:g}")
    yield Pair(kind, two[0], two[1], low=low, high=high)


def _failing(_: str, content: Mapping[str, Any]) -> Iterator[Pair]:
    bound = Quantity(number=_number("below", content.get("below")))
    for relation in ("fails", "trains"):
        for entry in _list(relation, content.get(relation, [])):
            yield Pair(relation, read_quantity(entry), bound)


def _group(entry: Any) -> list[Quantity]:
    if isinstance(entry, list):
        return [read_quantity(one) for one in entry]
    return [read_quantity(entry)]


def read_quantity(entry: Any) -> Quantity:
    """Return the quantity that a text or number says."""
    if isinstance(entry, int | float) and not isinstance(entry, bool):
        return Quantity(number=float(entry))
    if not isinstance(entry, str) or not entry.strip():
        raise ConfigError(f"a quantity is a method, perhaps with `@ setting`, or a number, not {entry!r:.60}")
    parts = [_place(text) for text in entry.split(MINUS)]
    if len(parts) > 2:
        raise ConfigError(f"a quantity is a difference of two at most, not {entry!r}")
    settings = [place.setting for place in parts if place.setting]
    if len(parts) == 2 and len(settings) == 1:
        parts = [place.within(settings[0]) for place in parts]
    return Quantity(tuple(zip((1, -1), parts, strict=False)))


def _place(text: str) -> MethodPlace:
    method, at, setting = (part.strip() for part in text.partition(AT))
    if not method or (at and not setting):
        raise ConfigError(f"{text!r} must be `method` or `method @ setting`")
    return MethodPlace(method, setting)


def _list(name: str, content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise ConfigError(f"`{name}` must be a list, not {content!r:.60}")
    return content


def _number(name: str, content: Any) -> float:
    if isinstance(content, bool) or not isinstance(content, int | float):
        raise ConfigError(f"`{name}` must be a number, not {content!r:.60}")
    return float(content)
