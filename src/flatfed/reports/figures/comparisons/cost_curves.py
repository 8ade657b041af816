"""A number of the history over rounds, bytes, backprops and seconds: four panels, a line with a band each method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats
from flatfed.reports.curves import REFERENCE, THIN, axis_name, centralised_among, rounds_of, scale_of, value_in
from flatfed.reports.drawn_rounds import DrawnRounds, density_note
from flatfed.reports.figures.drawing.scales import add_panels, finite, fit_scale, is_wide, left_ones
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    MEDIUM,
    alone,
    colour,
    finish,
    fold,
    in_style,
    look,
    named,
    new_figure,
    require_some,
)
from flatfed.reports.results.result import OneRun, Result
from flatfed.runs.history import Row
from flatfed.runs.packed import rounds_of as rounds_in

HEIGHT = 3.3
BANDS = "Line: mean over seeds; band: their range. Costs are totals, means over seeds."
CROSSES = "A cross: a seed diverged."
DASHED = "Dashed: the final value of centralised training, which has no federated rounds."


@dataclass(frozen=True)
class CostAxis:
    """What a number is drawn over.

    Attributes:
        name: of the axis.
        of_row: what a round adds.
        units: names of units with their sizes, the smallest first.
    """

    name: str
    of_row: Callable[[Row], float]
    units: tuple[tuple[str, float], ...] = (("", 1.0),)

    def unit_for(self, largest: float) -> tuple[str, float]:
        """Return the largest unit of which there is at least one."""
        fitting = [unit for unit in self.units if largest >= unit[1]]
        return (fitting or [self.units[0]])[-1]

    def called(self, unit: str) -> str:
        """Return the axis's name with its unit."""
        return f"{self.name} ({unit})" if unit else self.name


def _bytes(row: Row) -> float:
    return float(row["bytes_down"] + row["bytes_up"])


AXES = (
    CostAxis("round", lambda row: float(rounds_in(row))),
    CostAxis("exchanged", _bytes, (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))),
    CostAxis("backprops", lambda row: float(row["backprops"]), (("", 1.0), ("thousands", 1e3), ("millions", 1e6))),
    CostAxis("time", lambda row: float(row["seconds"]), (("s", 1.0), ("min", 60.0), ("h", 3600.0))),
)


@dataclass(frozen=True)
class _CostCurve:
    """One method: the rounds that have a value, and the values of its seeds there; what each round costs."""

    result: Result
    values: dict[int, list[float]]
    costs: dict[str, dict[int, float]]
    crosses: list[tuple[int, float]]
    is_reference: bool = False
    """Whether it is a line at its final value, to hold the others against."""

    @property
    def rounds(self) -> DrawnRounds:
        """The rounds that are drawn."""
        return rounds_of(self.result, self.values)

    def means(self, rounds: Sequence[int]) -> list[float]:
        """Return the means over seeds in some rounds."""
        return [_mean(self.values[round]) for round in rounds]


@in_style
def draw_cost_curves(results: Sequence[Result], files: Sequence[Path], name: str, title: str = "") -> None:
    """Draw a column of the history, or a number that is watched, over each of the four costs.

    A method without a value of it has no line. Centralised training among federated methods, whose rounds are passes
    over all examples, is a dashed line at its final value. The y axis is logarithmic where it spans more than two
    decades.
    """
    scale = scale_of(results, name)
    references = centralised_among(results)
    curves = [_curve(result, name, scale, result in references) for result in results]
    require_some([curve for curve in curves if curve.values])
    numbers = finite(values for curve in curves for values in curve.values.values())
    figure = new_figure(COLUMN, HEIGHT)
    panels = add_panels(figure, len(AXES), 2)
    for axes, axis in zip(panels, AXES, strict=True):
        fit_scale(axes.yaxis, numbers)
        _draw_panel(axes, axis, curves)
    _share_heights(panels)
    for axes in left_ones(panels, 2):
        axes.set_ylabel(fold(named(axis_name(results, name), is_wide(numbers)), HEIGHT / 2 - 0.4, MEDIUM))
    keys = [_key(place, curve) for place, curve in enumerate(curves) if curve.values]
    finish(figure, files, _note(curves), title, keys)


def _curve(result: Result, name: str, scale: float, is_reference: bool) -> _CostCurve:
    points = [_points(run, name, scale) for run in result.runs]
    rounds = sorted(set[int]().union(*points))
    values = {round: [own[round] for own in points if round in own] for round in rounds}
    ends = [max(own) for own in points if own]
    diverged = [run.summary["status"] == "diverged" for run in result.runs if _points(run, name, scale)]
    crosses = [
        (end, own[end]) for end, own, is_lost in zip(ends, filter(None, points), diverged, strict=True) if is_lost
    ]
    return _CostCurve(result, values, {axis.name: _totals(result, axis) for axis in AXES}, crosses, is_reference)


def _points(run: OneRun, name: str, scale: float) -> dict[int, float]:
    """Return a run's finite values by round, counted from 1."""
    values = {row["round"] + 1: value_in(row, name) for row in run.rows}
    return {round: scale * value for round, value in values.items() if value is not None and math.isfinite(value)}


def _totals(result: Result, axis: CostAxis) -> dict[int, float]:
    """Return what was spent up to each round, the mean over the seeds that came so far."""
    totals = [_added_up(run, axis) for run in result.runs]
    rounds = sorted(set[int]().union(*totals))
    return {round: _mean([own[round] for own in totals if round in own]) for round in rounds}


def _added_up(run: OneRun, axis: CostAxis) -> dict[int, float]:
    """Return what a run had spent after each round that it has a row of, counted from 1."""
    return dict(zip((row["round"] + 1 for row in run.rows), accumulate(map(axis.of_row, run.rows)), strict=True))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _draw_panel(axes: Any, axis: CostAxis, curves: Sequence[_CostCurve]) -> None:
    from matplotlib.ticker import MaxNLocator

    largest = max(max(curve.costs[axis.name].values()) for curve in curves if not curve.is_reference)
    unit, size = axis.unit_for(largest)
    for place, curve in enumerate(curves):
        costs = {round: cost / size for round, cost in curve.costs[axis.name].items()}
        _draw_curve(axes, place, curve, costs)
    axes.set_xlabel(axis.called(unit))
    axes.grid(axis="y")
    axes.margins(x=0.03, y=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=axis.name == "round", steps=[1, 2, 5, 10]))


def _draw_curve(axes: Any, place: int, curve: _CostCurve, costs: dict[int, float]) -> None:
    if not curve.values:
        return
    if curve.is_reference:
        axes.axhline(_mean(curve.values[max(curve.values)]), zorder=2, **look(place) | REFERENCE | {"linewidth": 1.1})
        return
    even = curve.rounds.even
    for stretch in curve.rounds.stretches:
        axes.plot([costs[round] for round in stretch], curve.means(stretch), color=colour(place), **THIN)
    xs = np.array([costs[round] for round in even])
    axes.plot(xs, curve.means(even), zorder=3, **look(place) | {"linewidth": 1.1}, **alone(len(xs), size=3))
    values = [curve.values[round] for round in even]
    if any(len(own) > 1 for own in values):
        _draw_band(axes, place, xs, values)
    for round, value in curve.crosses:
        axes.plot(costs[round], value, "x", color=colour(place), markersize=5, markeredgewidth=1.3, zorder=4)


def _draw_band(axes: Any, place: int, xs: Floats, values: Sequence[Sequence[float]]) -> None:
    low, high = list(map(min, values)), list(map(max, values))
    axes.fill_between(xs, low, high, color=colour(place), alpha=0.15, linewidth=0)
    if len(xs) == 1:  # an area over one round has no width
        axes.vlines(xs, low, high, color=colour(place), alpha=0.3, linewidth=3)


def _share_heights(panels: Sequence[Any]) -> None:
    """Give all panels one scale; only those on the left have its numbers."""
    low = min(axes.get_ylim()[0] for axes in panels)
    high = max(axes.get_ylim()[1] for axes in panels)
    for place, axes in enumerate(panels):
        axes.set_ylim(low, high)
        axes.tick_params(labelleft=place % 2 == 0)


def _note(curves: Sequence[_CostCurve]) -> str:
    sentences = []
    if any(len(curve.result.runs) > 1 for curve in curves):
        sentences.append(BANDS)
    if any(curve.is_reference for curve in curves):
        sentences.append(DASHED)
    if any(curve.crosses for curve in curves):
        sentences.append(CROSSES)
    sentences.append(density_note(curve.rounds for curve in curves if not curve.is_reference))
    return " ".join(filter(None, sentences))


def _key(place: int, curve: _CostCurve) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    style = look(place) | REFERENCE if curve.is_reference else look(place)
    return Line2D([], [], **style), curve.result.method
