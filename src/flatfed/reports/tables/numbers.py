"""Numbers as people read them in tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from flatfed.runs.metrics import Metric

NOTHING = "–"
UNITS = ("kB", "MB", "GB", "TB")
STEP = 999.95
"""From here on one decimal would be printed as `1,000.0`: the next unit is taken."""
Spread = tuple[float, float | None]
"""A mean and a sample standard deviation; None for the latter where there is one value."""


Key = TypeVar("Key")
Value = TypeVar("Value")


def known(values: Iterable[Value | None]) -> list[Value]:
    """Return the values that there are."""
    return [value for value in values if value is not None]


def known_items(values: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Return the values that there are, by what they were taken of."""
    return {key: value for key, value in values.items() if value is not None}


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return mean and sample standard deviation, None for the latter where there is one value."""
    if not values:
        return None
    return statistics.fmean(values), _deviation(values)


def _deviation(values: Sequence[float]) -> float | None:
    if len(values) == 1:
        return None
    return statistics.stdev(values)


def mean_of(spread: Spread | None) -> float | None:
    """Return the mean, or None where there is no value."""
    if spread is None:
        return None
    return spread[0]


def of_metric(metric: Metric, spread: Spread | None) -> str:
    """Return a metric's value in its unit."""
    if metric.shown.unit == "%":
        return percent(spread)
    return number(spread)


def percent(spread: Spread | None) -> str:
    """Return mean ± deviation in per cent, or a dash."""
    if spread is None:
        return NOTHING
    mean, deviation = spread
    if deviation is None:
        return f"{100 * mean:.2f}"
    return f"{100 * mean:.2f} ± {100 * deviation:.2f}"


def number(spread: Spread | None) -> str:
    """Return mean ± deviation of a plain number, or a dash."""
    if spread is None:
        return NOTHING
    mean, deviation = spread
    if deviation is None:
        return f"{mean:.4g}"
    return f"{mean:.4g} ± {deviation:.2g}"


def megabytes(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    if count < STEP:
        return f"{count:.0f} B"
    value, power = count / 1000, 0
    while value >= STEP and power < len(UNITS) - 1:
        value /= 1000
        power += 1
    return f"{value:,.1f} {UNITS[power]}"
