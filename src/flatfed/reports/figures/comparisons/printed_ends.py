"""A number over rounds, and the end points that a paper prints of longer training: how far there is still to go."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.reports.curves import THIN, Points, axis_name, by_round, points_of, rounds_of, scale_of
from flatfed.reports.drawn_rounds import DrawnRounds
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
    "Line: measured, mean over seeds. Dot: what is reported of it. Circle: printed by the paper, after its rounds.\n"
    "Dotted lines join the two; they forecast nothing."
)


@dataclass(frozen=True)
class EndPoint:
    """What a paper prints of a method at the end of its training.

    Attributes:
        method: as the results name it.
        round: after how many rounds.
        value: in the unit of the drawn axis: an accuracy in percent.
        reported: what is reported of the method's runs here, in the same unit: the mean of the last rounds, say.
    """

    method: str
    round: int
    value: float
    reported: float


@in_style
def draw_printed_ends(
    results: Sequence[Result], ends: Sequence[EndPoint], files: Sequence[Path], name: str, title: str = ""
) -> None:
    """Draw a column of the history over rounds, on a logarithmic axis, with the end points of the same methods."""
    scale = scale_of(results, name)
    means = {result.method: _means(result, name, scale) for result in results}
    require_some([points for points in means.values() if points])
    figure = new_figure(COLUMN, HEIGHT)
    axes = figure.subplots()
    for place, result in enumerate(results):
        points = means[result.method]
        if points:
            _draw_curve(axes, place, points, rounds_of(result, by_round([points])))
            _draw_ends(axes, place, max(points), [end for end in ends if end.method == result.method])
    axes.set_xscale("log")
    axes.set_xlabel("round")
    axes.set_ylabel(axis_name(results, name))
    axes.grid(axis="y")
    keys = [_key(place, method) for place, method in enumerate(means) if means[method]]
    finish(figure, files, NOTE, title, keys)


def _means(result: Result, name: str, scale: float) -> Points:
    """Return the finite means over seeds, by round."""
    values = by_round([points_of(run, name, scale) for run in result.runs])
    means = {round: statistics.fmean(of_seeds) for round, of_seeds in values.items()}
    return {round: mean for round, mean in means.items() if math.isfinite(mean)}


def _draw_curve(axes: Any, place: int, points: Points, rounds: DrawnRounds) -> None:
    """Draw the evenly spaced rounds; those that were evaluated besides are thin."""
    for stretch in rounds.stretches:
        axes.plot(stretch, [points[round] for round in stretch], color=colour(place), **THIN)
    even = [points[round] for round in rounds.even]
    axes.plot(rounds.even, even, zorder=3, **look(place) | {"linewidth": 1.1}, **alone(len(even), size=3))


def _draw_ends(axes: Any, place: int, last: int, ends: Sequence[EndPoint]) -> None:
    """Join what is reported after the last round with what the paper has after all of its rounds."""
    mark = {"color": colour(place), "marker": "o", "markersize": 5, "zorder": 4}
    for end in ends:
        axes.plot([last, end.round], [end.reported, end.value], color=colour(place), linestyle=":", linewidth=0.8)
        axes.plot(last, end.reported, **mark)
        axes.plot(end.round, end.value, **mark, markerfacecolor="white")


def _key(place: int, method: str) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], **look(place)), method
