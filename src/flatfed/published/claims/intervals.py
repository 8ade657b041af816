"""Numbers of methods in settings, and intervals for their differences and ratios.

`MeasuredNumbers` has a value for each seed: differences are paired by seed, and the interval is a bootstrap over
seeds, which for three of them is their range.
`PrintedNumbers` has a mean and perhaps a standard deviation: the interval is that deviation around the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from flatfed.bootstrap import Interval, bootstrap_interval, ratio_interval
from flatfed.published.claims.rules import MethodPlace, Pair, Quantity

FEWEST = 3
"""With fewer seeds nothing is decided, and with so few only what all of them agree in: the interval is their range."""

DIVERGED = "a run diverged"

Key = tuple[str, str]
"""A setting and a method."""

Values = Mapping[Key, Mapping[int, float]]
"""For each, the values by seed: NaN for a run that diverged, infinity for a target that was never reached."""


class NotKnown(Exception):
    """Why a comparison cannot be decided."""


class NotMeasured(NotKnown):
    """A number that is not there at all."""


@dataclass(frozen=True)
class MeanInterval:
    """An estimate, and between what it lies; both ends are it where nothing is known of its spread."""

    estimate: float
    low: float
    high: float
    count: int
    """Of seeds; 0 for printed numbers."""


class Numbers(Protocol):
    """Where the numbers of a comparison come from."""

    def means(self, left: Quantity, right: Quantity) -> tuple[float, float]:
        """Return the means of two quantities that are compared."""

    def difference(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return left - right."""

    def ratio(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return left / right."""

    def each(self, quantity: Quantity) -> list[float]:
        """Return every single value of a quantity."""


class MeasuredNumbers:
    """Values by seed.

    Args:
        values: of every setting and method.
        diverged: what a run that diverged counts as: minus infinity where higher is better, NaN for nothing at all.
        lost: what a number that is NaN means.
    """

    def __init__(self, values: Values, diverged: float = math.nan, lost: str = DIVERGED) -> None:
        self.values, self.diverged, self.lost = values, diverged, lost

    def has(self, pair: Pair) -> bool:
        """Say whether the numbers of a comparison are there, with seeds enough in common."""
        try:
            return len(self._seeds(pair.left, pair.right)) >= FEWEST
        except NotMeasured:
            return False

    def has_place(self, place: MethodPlace) -> bool:
        """Say whether a method was measured in a setting."""
        return bool(self.values.get((place.setting, place.method)))

    def means(self, left: Quantity, right: Quantity) -> tuple[float, float]:
        """Return the means over the seeds in common."""
        seeds = self._seeds(left, right)
        return _mean(self._by_seed(left, seeds)), _mean(self._by_seed(right, seeds))

    def each(self, quantity: Quantity) -> list[float]:
        """Return the values of one method; a run that diverged is NaN."""
        seeds = self._seeds(quantity)
        _refuse_few(seeds)
        return [self._sum(quantity, seed, math.nan) for seed in seeds]

    def difference(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return the mean of the differences by seed, with its interval."""
        seeds = self._seeds(left, right)
        _refuse_few(seeds)
        pairs = list(zip(self._by_seed(left, seeds), self._by_seed(right, seeds), strict=True))
        if any(math.isinf(a) and a == b for a, b in pairs):
            raise NotKnown("with a seed both diverged, or neither reached the target")
        differences = [a - b for a, b in pairs]
        if any(math.isnan(one) for one in differences):
            raise NotKnown(self.lost)
        if not all(math.isfinite(one) for one in differences):
            # There is no mean: only what all seeds agree in is known.
            return MeanInterval(_middle(differences), min(differences), max(differences), len(seeds))
        mean = math.fsum(differences) / len(seeds)
        return _with_interval(mean, bootstrap_interval(differences), len(seeds))

    def ratio(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return the ratio of the means, with its interval over pairs of seeds."""
        seeds = self._seeds(left, right)
        _refuse_few(seeds)
        above, below = self._by_seed(left, seeds), self._by_seed(right, seeds)
        if not all(map(math.isfinite, [*above, *below])):
            raise NotKnown(f"{self.lost} or did not reach the target")
        if not all(value > 0 for value in below):
            raise NotKnown("a ratio needs positive numbers")
        ratio = _mean(above) / _mean(below)
        return _with_interval(ratio, ratio_interval(above, below), len(seeds))

    def _seeds(self, *quantities: Quantity) -> list[int]:
        """Return the seeds that all parts of some quantities have."""
        every = [set(self._at(place)) for quantity in quantities for _, place in quantity.places]
        return sorted(set.intersection(*every))

    def _at(self, place: MethodPlace) -> Mapping[int, float]:
        found = self.values.get((place.setting, place.method))
        if not found:
            raise NotMeasured(f"{place} was not measured")
        return found

    def _by_seed(self, quantity: Quantity, seeds: list[int]) -> list[float]:
        return [self._sum(quantity, seed, self.diverged) for seed in seeds]

    def _sum(self, quantity: Quantity, seed: int, diverged: float) -> float:
        total = quantity.number
        for sign, place in quantity.places:
            value = self._at(place)[seed]
            total += sign * (diverged if math.isnan(value) else value)
        return total


class PrintedNumbers:
    """Means with standard deviations, as papers print them; None for a deviation that is not printed."""

    def __init__(self, values: Mapping[Key, tuple[float, float | None]], diverged: float = math.nan) -> None:
        self.values, self.diverged = values, diverged

    def means(self, left: Quantity, right: Quantity) -> tuple[float, float]:
        """Return the printed means, or differences of them."""
        return self._mean(left), self._mean(right)

    def _mean(self, quantity: Quantity) -> float:
        return quantity.number + math.fsum(sign * self._at(place)[0] for sign, place in quantity.places)

    def each(self, quantity: Quantity) -> list[float]:
        """Return the mean; NaN for one that diverged."""
        return [quantity.number + math.fsum(sign * self._raw(place)[0] for sign, place in quantity.places)]

    def difference(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return the difference, and one standard deviation of it around it."""
        above, below = self.means(left, right)
        estimate = 0.0 if above == below else above - below
        if math.isnan(estimate):
            raise NotKnown(DIVERGED)
        spread = math.hypot(*(self._at(place)[1] or 0.0 for _, place in (*left.places, *right.places)))
        return MeanInterval(estimate, estimate - spread, estimate + spread, 0)

    def ratio(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return the ratio of the means."""
        above, below = self.means(left, right)
        if not (math.isfinite(above) and math.isfinite(below) and below > 0):
            raise NotKnown("a ratio needs positive numbers")
        ratio = above / below
        return MeanInterval(ratio, ratio, ratio, 0)

    def _at(self, place: MethodPlace) -> tuple[float, float | None]:
        mean, spread = self._raw(place)
        return (self.diverged if math.isnan(mean) else mean), spread

    def _raw(self, place: MethodPlace) -> tuple[float, float | None]:
        found = self.values.get((place.setting, place.method))
        if found is None:
            raise NotMeasured(f"{place} is not printed")
        return found


def _refuse_few(seeds: list[int]) -> None:
    if len(seeds) < FEWEST:
        raise NotKnown(f"{len(seeds)} seeds in common, where {FEWEST} are needed")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _with_interval(estimate: float, interval: Interval | None, count: int) -> MeanInterval:
    assert interval is not None  # there are enough seeds
    return MeanInterval(estimate, interval.low, interval.high, count)
