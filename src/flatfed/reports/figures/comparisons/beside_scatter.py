"""Measured values against published ones: on the diagonal they are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.reports.figures.drawing.scales import finite, is_wide, make_log
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    GREY,
    colour,
    finish,
    fold,
    in_style,
    named,
    new_figure,
    require_some,
)

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SIDE = 2.9
"""Inches: about a square."""
SETTINGS = "A mark for each setting."
SPREADS = "Bars: ± one standard deviation."
OTHER_DATA = "Hollow: on other data than the published one."


@dataclass(frozen=True)
class BesidePoint:
    """A measured value beside a published one, in the same unit, each with its deviation where it has one."""

    method: str
    published: float
    measured: float
    published_std: float | None = None
    measured_std: float | None = None
    is_on_other_data: bool = False


@in_style
def draw_beside(points: Sequence[BesidePoint], files: Sequence[Path], name: str, title: str = "") -> None:
    """Draw a mark for each pair, one colour and marker for each method, and the diagonal.

    Both axes have the same scale, which is logarithmic where the values span more than two decades.
    """
    require_some(points)
    values = finite([[point.published, point.measured] for point in points])
    figure = new_figure(COLUMN, SIDE)
    axes = figure.subplots()
    log = is_wide(values)
    methods = list(dict.fromkeys(point.method for point in points))
    for point in points:
        _draw_point(axes, point, methods.index(point.method))
    low, high = _ends(points, log)
    if log:
        for axis in (axes.xaxis, axes.yaxis):
            make_log(axis, high / low)
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    axes.set_aspect("equal")
    axes.set_xlabel(fold(named(f"{name}, published", log), COLUMN - 0.8, 8.0))
    axes.set_ylabel(fold(named(f"{name}, measured", log), SIDE - 0.6, 8.0))
    axes.grid()
    _same_ticks(axes, log)
    finish(figure, files, _note(points), title, [_key(place, method) for place, method in enumerate(methods)])


def _draw_point(axes: Any, point: BesidePoint, place: int) -> None:
    hollow = {"markerfacecolor": "white"}
    # A white edge, so that one can be seen above another.
    full = {"markeredgecolor": "white", "markeredgewidth": 0.4}
    axes.errorbar(
        point.published,
        point.measured,
        xerr=point.published_std,
        yerr=point.measured_std,
        fmt=_marker(place),
        markersize=4.5,
        color=colour(place),
        linewidth=0.8,
        zorder=3,
        **hollow if point.is_on_other_data else full,
    )


def _marker(place: int) -> str:
    # There are as many markers as colours: without the shift the pairs would repeat after eight methods.
    return MARKERS[(place + place // len(MARKERS)) % len(MARKERS)]


def _ends(points: Sequence[BesidePoint], log: bool) -> tuple[float, float]:
    """Return the ends of both axes: all values with their deviations, and a margin."""
    lows = [value - (spread or 0.0) for point in points for value, spread in _pairs(point)]
    highs = [value + (spread or 0.0) for point in points for value, spread in _pairs(point)]
    if log:
        # A deviation may reach below 0, which has no place on this scale.
        lows = [value for point in points for value, _ in _pairs(point)]
        return min(lows) / 1.3, max(highs) * 1.3
    margin = 0.06 * (max(highs) - min(lows)) or 0.1 * abs(max(highs)) or 0.5
    return min(lows) - margin, max(highs) + margin


def _pairs(point: BesidePoint) -> list[tuple[float, float | None]]:
    return [(point.published, point.published_std), (point.measured, point.measured_std)]


def _same_ticks(axes: Any, log: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    if not log:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def _note(points: Sequence[BesidePoint]) -> str:
    sentences = ["Dashed: the same as published."]
    if len({point.method for point in points}) < len(points):
        sentences.append(SETTINGS)
    if any(spread for point in points for _, spread in _pairs(point)):
        sentences.append(SPREADS)
    if any(point.is_on_other_data for point in points):
        sentences.append(OTHER_DATA)
    return " ".join(sentences)


def _key(place: int, method: str) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=_marker(place), markersize=4.5, color=colour(place)), method
