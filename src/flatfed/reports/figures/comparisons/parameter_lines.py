"""A number against a parameter, such as accuracy or the largest eigenvalue against rho: a line with a band each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats
from flatfed.reports.figures.drawing.scales import finite, fit_scale, is_wide, make_log
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    alone,
    colour,
    finish,
    in_style,
    look,
    named,
    new_figure,
    plain,
    require_some,
)

MARKERS = ("o", "s", "^", "D", "v", "P")
MOST_TICKS = 7
"""Values of a parameter that each have a tick."""
SPREAD = 5.0
"""From this ratio of the largest to the smallest on, two values are a log range."""
BANDS = "Line: mean over seeds; band: ± one standard deviation."
CROSSES = "A cross at the bottom: a seed diverged."


@dataclass(frozen=True)
class ParameterLine:
    """One method: for each value of the parameter the numbers of its seeds; one that is not finite diverged."""

    label: str
    values: Mapping[float, Sequence[float]]


@in_style
def draw_parameter_lines(
    lines: Sequence[ParameterLine], files: Sequence[Path], x_name: str, y_name: str, title: str = ""
) -> None:
    """Draw the mean over seeds against the parameter, with a band of one standard deviation.

    The x axis is logarithmic where the values are a log range, the y axis where it spans more than two decades.
    Where a seed diverged there is no mean, but a cross at the bottom.
    """
    require_some(lines)
    xs = sorted({float(x) for line in lines for x in line.values})
    require_some(xs)
    figure = new_figure(COLUMN, 2.3)
    axes = figure.subplots()
    log = is_log_range(xs)
    if log:
        make_log(axes.xaxis, xs[-1] / xs[0])
    numbers = finite(numbers for line in lines for numbers in line.values.values())
    fit_scale(axes.yaxis, numbers)
    crosses = 0
    for place, line in enumerate(lines):
        # Crosses of several methods stand one above the other.
        crosses += _draw_line(axes, place, line, crosses)
    _dress(axes, xs, named(x_name, log), named(y_name, is_wide(numbers)))
    finish(figure, files, _note(lines, crosses > 0), title, _keys(lines))


def is_log_range(xs: Sequence[float]) -> bool:
    """Say whether numbers are spaced by ratios rather than by differences: 0.01, 0.1, 1, or 0.01, 0.05, 0.1, 0.5."""
    values = np.unique(np.asarray(xs, dtype=np.float64))
    if values.size < 2 or values[0] <= 0:
        return False
    if values.size == 2:
        return bool(values[1] >= SPREAD * values[0])
    return _unevenness(np.diff(np.log(values))) < _unevenness(np.diff(values))


def _unevenness(steps: Floats) -> float:
    return float(steps.std() / steps.mean())


def _draw_line(axes: Any, place: int, line: ParameterLine, below: int) -> bool:
    """Draw one method, its crosses above those of the lines before it; say whether a seed of it diverged."""
    xs = np.array(sorted(line.values), dtype=np.float64)
    samples = [np.asarray(line.values[x], dtype=np.float64) for x in sorted(line.values)]
    means = np.array([_mean(sample) for sample in samples])
    spreads = np.array([_spread(sample) for sample in samples])
    known = np.isfinite(means)
    marker = MARKERS[place % len(MARKERS)]
    style = look(place) | {"marker": marker, "markersize": 3.5} | alone(len(xs), marker)
    axes.plot(xs, means, zorder=3, **style)
    if (spreads[known] > 0).any():
        axes.fill_between(
            xs, means - spreads, means + spreads, where=known, color=colour(place), alpha=0.2, linewidth=0
        )
    lost = xs[~known]
    # In shares of the axes' height, whatever the numbers are.
    across = axes.get_xaxis_transform()
    axes.plot(lost, [0.03 + 0.05 * below] * lost.size, "x", color=colour(place), markersize=4, transform=across)
    return bool(lost.size)


def _mean(sample: Floats) -> float:
    """Return the mean; one that is not finite is drawn as a gap."""
    if sample.size == 0 or not np.isfinite(sample).all():
        return float("nan")
    return float(sample.mean())


def _spread(sample: Floats) -> float:
    if sample.size < 2 or not np.isfinite(sample).all():
        return 0.0
    return float(sample.std(ddof=1))


def _dress(axes: Any, xs: Sequence[float], x_name: str, y_name: str) -> None:
    axes.set_xlabel(x_name)
    axes.set_ylabel(y_name)
    axes.grid(axis="y")
    axes.margins(x=0.05, y=0.1)
    if len(xs) <= MOST_TICKS:
        axes.set_xticks(xs, [plain(x) for x in xs])


def _note(lines: Sequence[ParameterLine], has_crosses: bool) -> str:
    sentences = []
    if any(len(sample) > 1 for line in lines for sample in line.values.values()):
        sentences.append(BANDS)
    if has_crosses:
        sentences.append(CROSSES)
    return " ".join(sentences)


def _keys(lines: Sequence[ParameterLine]) -> list[tuple[Any, str]]:
    """Return the legend; a method without a value is not in it, and keeps its colour."""
    return [_key(place, line) for place, line in enumerate(lines) if line.values]


def _key(place: int, line: ParameterLine) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    marker = MARKERS[place % len(MARKERS)]
    return Line2D([], [], marker=marker, markersize=3.5, **look(place)), line.label
