"""Numbers as people read them in tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from flatfed.runs.metrics import Metric

NOTHING = "–"
Spread = tuple[float, float | None]


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return mean and sample standard deviation, None for the latter where there is one value."""
    if not values:
        return None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def of_metric(metric: Metric, spread: Spread | None) -> str:
    """Return a metric's value in its unit."""
    return percent(spread) if metric.shown.unit == "%" else number(spread)


def percent(spread: Spread | None) -> str:
    """Return mean ± deviation in per cent, or a dash."""
    if spread is None:
        return NOTHING
    mean, std = spread
    return f"{100 * mean:.2f}" + (f" ± {100 * std:.2f}" if std is not None else "")


def number(spread: Spread | None) -> str:
    """Return mean ± deviation of a plain number, or a dash."""
    if spread is None:
        return NOTHING
    mean, std = spread
    return f"{mean:.4g}" + (f" ± {std:.2g}" if std is not None else "")


def megabytes(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    value, unit = count, "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:,.1f} {unit}"
