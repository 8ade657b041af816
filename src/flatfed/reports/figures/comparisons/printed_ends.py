"""A number over rounds, and the end points that a paper prints of longer training: how far there is still to go."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.reports.curves import axis_name, by_round, points_of, scale_of
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    alone,
    colour,
    finish,
    in_style,
    look,
    new_figure,
    require_some,
)
from flatfed.reports.results.result import Result

HEIGHT = 2.6
NOTE = (
    "Line: measured, mean over seeds. Circle: printed by the paper, after its rounds; dots join what belongs together."
)


@dataclass(frozen=True)
class EndPoint:
    """What a paper prints of a method at the end of its training.

    Attributes:
        method: as the results name it.
        round: after how many rounds.
        value: in the unit of the drawn axis: an accuracy in percent.
    """

    method: str
    round: int
    value: float


@in_style
def draw_printed_ends(
    results: Sequence[Result], ends: Sequence[EndPoint], files: Sequence[Path], name: str, title: str = ""
) -> None:
    """Draw a column of the history over rounds, on a logarithmic axis, with the end points of the same methods."""
    scale = scale_of(results, name)
    curves = {result.method: _means(result, name, scale) for result in results}
    require_some([points for points in curves.values() if points])
    figure = new_figure(COLUMN, HEIGHT)
    axes = figure.subplots()
    for place, (method, points) in enumerate(curves.items()):
        own = [end for end in ends if end.method == method]
        _draw_method(axes, place, points, own)
    axes.set_xscale("log")
    axes.set_xlabel("round")
    axes.set_ylabel(axis_name(results, name))
    axes.grid(axis="y")
    keys = [_key(place, method) for place, method in enumerate(curves) if curves[method]]
    finish(figure, files, NOTE, title, keys)


def _means(result: Result, name: str, scale: float) -> dict[int, float]:
    """Return the finite means over seeds, by round."""
    values = by_round([points_of(run, name, scale) for run in result.runs])
    means = {round: statistics.fmean(of_seeds) for round, of_seeds in values.items()}
    return {round: mean for round, mean in means.items() if math.isfinite(mean)}


def _draw_method(axes: Any, place: int, points: Mapping[int, float], ends: Sequence[EndPoint]) -> None:
    if not points:
        return
    axes.plot(list(points), list(points.values()), zorder=3, **look(place), **alone(len(points), size=3))
    last = max(points)
    for end in ends:
        xs, ys = [last, end.round], [points[last], end.value]
        axes.plot(xs, ys, color=colour(place), linestyle=":", linewidth=0.8)
        axes.plot(end.round, end.value, "o", color=colour(place), markerfacecolor="white", markersize=5, zorder=4)


def _key(place: int, method: str) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], **look(place)), method
