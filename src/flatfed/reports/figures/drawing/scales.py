"""Scales of axes, and panels in rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats
from flatfed.reports.figures.drawing.style import MEDIUM, fold, plain

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


def with_gaps(values: Floats) -> Floats:
    """Return numbers with NaN, which is not drawn, for all that are not finite."""
    return np.where(np.isfinite(values), values, np.nan)


def is_wide(values: Floats, ratio: float = LOG_FROM) -> bool:
    """Say whether numbers span so much that a logarithmic scale is needed, and can have one."""
    return bool(values.size and values.min() > 0 and values.max() > ratio * values.min())


def span(values: Floats, share: float = 0.05) -> tuple[float, float]:
    """Return ends of a scale that holds the numbers, with a margin on both sides, also where they are all the same."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = _margin(low, high, share)
    return low - margin, high + margin


def _margin(low: float, high: float, share: float) -> float:
    if high > low:
        return share * (high - low)
    # All values may be 0.
    return 0.1 * abs(high) or 0.5


def fit_scale(axis: Any, values: Floats) -> None:
    """Make the axis of these numbers logarithmic where they need it."""
    if is_wide(values):
        make_log(axis, values.max() / values.min())


def make_log(axis: Any, spread: float) -> None:
    """Make an axis logarithmic, its ticks plain numbers; `spread` is the ratio of its ends."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_locator(LogLocator(subs=_ticks_per_decade(spread), numticks=8))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _ticks_per_decade(spread: float) -> tuple[float, ...]:
    """Return where ticks stand in a decade: few decades have room for two in each."""
    if spread < 1e3:
        return (1.0, 3.0)
    return (1.0,)


def _tick(value: float, _: Any) -> str:
    return plain(value)


def round_levels(values: Floats, log: bool) -> Floats:
    """Return round levels from the smallest to the largest value or just beyond."""
    if not values.size:
        return _even_levels(values)
    levels = _log_levels(values) if log else _even_levels(values)
    # 1e30 is not 10 * 1e29: a level that was computed may lie just inside.
    levels[0] = min(levels[0], values.min())
    levels[-1] = max(levels[-1], values.max())
    return levels


def _even_levels(values: Floats) -> Floats:
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(LEVELS, steps=[1, 2, 2.5, 5, 10])
    return np.asarray(locator.tick_values(*_ends(values)))


def _ends(values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest value, or ends around them where all are the same or there is none."""
    if values.size and np.ptp(values):
        return values.min(), values.max()
    return span(values)


def _log_levels(values: Floats) -> Floats:
    """Return as many levels within each decade as are not too many in all, else only every n-th power of ten."""
    low, high = int(np.floor(np.log10(values.min()))), int(np.ceil(np.log10(values.max())))
    for steps in STEPS:
        levels = _levels_within(values, steps, range(low, high + 1))
        if len(levels) <= LEVELS + 3:
            return levels
    every = -(-(high - low) // LEVELS)
    return 10.0 ** np.arange(low, high + every, every, dtype=np.float64)


def _levels_within(values: Floats, steps: Sequence[float], decades: Iterable[int]) -> Floats:
    """Return the levels from the last one below the values to the first one above them."""
    levels = np.sort([step * 10.0**decade for decade in decades for step in steps])
    first = max(int(np.searchsorted(levels, values.min(), side="right")) - 1, 0)
    last = int(np.searchsorted(levels, values.max()))
    return levels[first : last + 1]


def columns_for(count: int) -> int:
    """Return how many square panels stand in a row: up to three, and four in two rows."""
    if count == 4:
        return 2
    return min(count, 3)


def rows_for(count: int, columns: int) -> int:
    """Return how many rows hold these panels; the last need not be full."""
    return -(-count // columns)


def add_panels(figure: Any, count: int, columns: int, shared: bool = False) -> list[Any]:
    """Add panels, row by row; what is left over in the last row stays blank. With `shared` they have one scale."""
    rows = rows_for(count, columns)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared).ravel())
    for axes in panels[count:]:
        axes.set_axis_off()
    return panels[:count]


def add_titles(panels: Sequence[Any], titles: Sequence[str], width: float) -> None:
    """Put a title above each panel, broken into lines of at most `width` inches."""
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(fold(title, width, MEDIUM))


def left_ones(panels: Sequence[Any], columns: int) -> Sequence[Any]:
    """Return the first panel of each row."""
    return panels[::columns]


def lowest_ones(panels: Sequence[Any], columns: int) -> Sequence[Any]:
    """Return the panels with none below them: the last row and, where it is not full, the end of the row above."""
    return panels[-columns:]
