"""What the scales of figures need to know of the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats
from flatfed.reports.figures.drawing.words import plain

LOG_FROM = 100.0
"""From this ratio of the largest to the smallest on, a scale is logarithmic."""
LEVELS = 10
STEPS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Levels within a decade; the most that are not too many are taken."""


def finite(values: Iterable[Any]) -> Floats:
    """Return all finite numbers of some arrays, in one row."""
    rows = [np.asarray(part, dtype=np.float64).ravel() for part in values]
    row = np.concatenate(rows) if rows else np.empty(0)
    return row[np.isfinite(row)]


def is_wide(values: Floats, ratio: float = LOG_FROM) -> bool:
    """Say whether numbers span so much that a logarithmic scale is needed, and can have one."""
    return bool(values.size and values.min() > 0 and values.max() > ratio * values.min())


def span(values: Floats, share: float = 0.05) -> tuple[float, float]:
    """Return ends of a scale that holds the numbers, with a margin on both sides, also where they are all the same."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = share * (high - low) if high > low else 0.1 * abs(high) or 0.5
    return low - margin, high + margin


def make_log(axis: Any, spread: float) -> None:
    """Make an axis logarithmic, its ticks plain numbers; `spread` is the ratio of its ends."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if spread < 1e3 else (1.0,), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def round_levels(values: Floats, log: bool) -> Floats:
    """Return round levels from the smallest to the largest value or just beyond."""
    levels = _log_levels(values) if log else _even_levels(values)
    if values.size:  # 1e30 is not 10 * 1e29
        levels[0], levels[-1] = min(levels[0], values.min()), max(levels[-1], values.max())
    return levels


def _even_levels(values: Floats) -> Floats:
    from matplotlib.ticker import MaxNLocator

    ends = (values.min(), values.max()) if values.size and np.ptp(values) else span(values)
    return np.asarray(MaxNLocator(LEVELS, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends))


def _log_levels(values: Floats) -> Floats:
    low, high = int(np.floor(np.log10(values.min()))), int(np.ceil(np.log10(values.max())))
    for steps in STEPS:
        found = np.sort([step * 10.0**decade for decade in range(low, high + 1) for step in steps])
        first = max(int(np.searchsorted(found, values.min(), side="right")) - 1, 0)
        found = found[first : int(np.searchsorted(found, values.max())) + 1]
        if len(found) <= LEVELS + 3:
            return found
    every = -(-(high - low) // LEVELS)
    return 10.0 ** np.arange(low, high + every, every, dtype=np.float64)
