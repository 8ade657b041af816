"""The figure of a comparison: a metric, loss or any other number over rounds, mean and range over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any

from flatfed.reports.drawn_rounds import DrawnRounds, density_note, drawn_rounds, evaluated_every
from flatfed.reports.figures.drawing.style import PAGE, alone, finish, in_style, look, new_figure
from flatfed.reports.number_labels import LABELS
from flatfed.reports.results.result import OneRun, Result, all_runs
from flatfed.reports.tables.columns import primary
from flatfed.reports.tables.grid import known, known_items
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric
from flatfed.runs.packed import ROUNDS

PANEL, HEIGHT = PAGE / 2, 2.4
"""Inches: a panel's width, and its height."""
THIN = {"linewidth": 0.5, "alpha": 0.55}
"""How rounds are drawn that were evaluated besides the evenly spaced ones."""
CENTRALISED = "centralised"
"""The id of training on the pooled data: no federated rounds, so a line to hold the others against."""
REFERENCE = {"linestyle": (0, (6, 3)), "linewidth": 1.2}
Points = dict[int, float]
"""Values by round, counted from 1."""


@in_style
def draw_curves(results: Sequence[Result], files: Sequence[Path], title: str = "", names: Sequence[str] = ()) -> None:
    """Draw the curves into each of the files; the ending decides the format.

    `names` are columns of the history or numbers that methods watch, such as `c` or `divergence`; by default the
    primary metric (accuracy, say) and the training loss. A centralised run among federated ones is a dashed line at
    its final value.
    """
    chosen = list(names) or default_names(results)
    figure = new_figure(PANEL * len(chosen), HEIGHT)
    panels = figure.subplots(1, len(chosen), squeeze=False)[0]
    for axes, name in zip(panels, chosen, strict=True):
        _draw_panel(axes, results, name)
    keys = [(handle, label) for label, handle in _legend_keys(panels).items()]
    finish(figure, files, density_note(_all_drawn(results, chosen)), title, keys)


def has_curves(results: Sequence[Result]) -> bool:
    """Say whether any run has more than one point to draw."""
    return any(len(run.rows) > 1 for run in all_runs(results))


def _all_drawn(results: Sequence[Result], names: Sequence[str]) -> Iterator[DrawnRounds]:
    """Yield the rounds of each curve."""
    references = centralised_among(results)
    for result in results:
        for name in names:
            if result not in references:
                yield rounds_of(result, by_round([points_of(run, name, 1.0) for run in result.runs]))


def rounds_of(result: Result, values: Mapping[int, Sequence[float]]) -> DrawnRounds:
    """Return which of the rounds that have a value are drawn, and how."""
    return drawn_rounds(list(values), evaluated_every(result))


def _draw_panel(axes: Any, results: Sequence[Result], name: str) -> None:
    """Draw the curves of one number."""
    scale = scale_of(results, name)
    references = centralised_among(results)
    for index, result in enumerate(results):
        if result in references:
            _draw_reference(axes, result, name, scale, look(index))
        else:
            _draw_curve(axes, result, name, scale, look(index))
    _dress(axes, axis_name(results, name))
    if name == "train_loss":
        _scale_loss(axes, results)


def centralised_among(results: Sequence[Result]) -> list[Result]:
    """Return the centralised results among federated ones; alone they are drawn as curves."""
    centralised = [result for result in results if is_centralised(result)]
    if len(centralised) == len(results):
        return []
    return centralised


def _metric(results: Sequence[Result], name: str) -> Metric | None:
    """Return the metric with this column, if there is one; of several methods' the last."""
    metrics = {metric.column: metric for result in results for metric in result.metrics}
    return metrics.get(name)


def scale_of(results: Sequence[Result], name: str) -> float:
    """Return what a number is multiplied by for people."""
    metric = _metric(results, name)
    if metric is None:
        return 1.0
    return metric.scale


def axis_name(results: Sequence[Result], name: str) -> str:
    """Return the name of the axis of a number."""
    metric = _metric(results, name)
    if name in LABELS:
        return LABELS[name]
    if metric is None:
        return name.replace("_", " ")
    return metric.axis


def _legend_keys(panels: Sequence[Any]) -> dict[str, Any]:
    """Return one line for each label, from the first panel that has it."""
    keys: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        # A method without values in one panel may have some in the next.
        keys = dict(zip(labels, handles, strict=True)) | keys
    return keys


def default_names(results: Sequence[Result]) -> list[str]:
    """Return what is drawn by default: the primary metric (of a regression, the test loss) and the training loss."""
    return [primary(results).column, "train_loss"]


def is_centralised(result: Result) -> bool:
    """Say whether a result is of training on the pooled data."""
    return all(run.config["algorithm"].get("id") == CENTRALISED for run in result.runs)


def _rows(runs: Sequence[OneRun]) -> list[Row]:
    return [row for run in runs for row in run.rows]


def drawable(results: Sequence[Result]) -> list[str]:
    """Return the names of all numbers in the histories, those that methods watch included."""
    names: set[str] = set()
    for row in _rows(all_runs(results)):
        names |= _columns_with(row, int | float)
        names |= row.get("watch", {}).keys()
    return sorted(names - {"round", ROUNDS})


def undrawable(results: Sequence[Result]) -> dict[str, str]:
    """Return the columns that hold more than a number, and what it is."""
    lists: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for row in _rows(all_runs(results)):
        lists |= dict.fromkeys(_columns_with(row, list), "a list")
        by_name |= dict.fromkeys(_columns_with(row, dict), "numbers by name")
    return lists | by_name


def _columns_with(row: Row, kind: type | UnionType) -> set[str]:
    """Return the columns of a row that hold a value of this kind."""
    return {name for name, value in row.items() if isinstance(value, kind)}


def value_in(row: Row, name: str) -> float | None:
    """Return a number of a history row: a column, or one that a method watches."""
    value: float | None = row.get(name, row.get("watch", {}).get(name))
    return value


def points_of(run: OneRun, name: str, scale: float) -> Points:
    """Return a run's values, as they are drawn, in the rounds that have one."""
    values = known_items({row["round"] + 1: value_in(row, name) for row in run.rows})
    return {round: scale * value for round, value in values.items()}


def _draw_curve(axes: Any, result: Result, name: str, scale: float, style: dict[str, Any]) -> None:
    """Draw the mean over seeds, the range over seeds, and a cross where a run diverged."""
    curves = [points_of(run, name, scale) for run in result.runs]
    for run, points in zip(result.runs, curves, strict=True):
        if run.summary["status"] == "diverged":
            _draw_cross(axes, points, style["color"])
    values = by_round(curves)
    if not values:
        return
    rounds = rounds_of(result, values)
    for stretch in rounds.stretches:
        axes.plot(stretch, _means(values, stretch), color=style["color"], **THIN)
    axes.plot(rounds.even, _means(values, rounds.even), label=result.method, **style, **alone(len(rounds.even)))
    if len(curves) > 1:
        _draw_range(axes, {round: values[round] for round in rounds.even}, style["color"])


def _means(values: Mapping[int, Sequence[float]], rounds: Sequence[int]) -> list[float]:
    return [statistics.fmean(values[round]) for round in rounds]


def _draw_cross(axes: Any, points: Points, colour: str) -> None:
    """Mark the last point of a run that diverged."""
    if not points:
        return
    last = max(points)
    axes.plot(last, points[last], marker="x", color=colour, markersize=7, markeredgewidth=2)


def by_round(curves: Sequence[Points]) -> dict[int, list[float]]:
    """Return the values of all seeds, round by round."""
    rounds = sorted(set[int]().union(*curves))
    return {round: known(points.get(round) for points in curves) for round in rounds}


def _draw_range(axes: Any, values: Mapping[int, Sequence[float]], colour: str) -> None:
    """Shade the range over seeds."""
    rounds = list(values)
    low, high = list(map(min, values.values())), list(map(max, values.values()))
    axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    if len(rounds) == 1:  # an area over one round has no width
        axes.vlines(rounds, low, high, color=colour, alpha=0.3, linewidth=4)


def _draw_reference(axes: Any, result: Result, name: str, scale: float, style: dict[str, Any]) -> None:
    """Draw a dashed line at the final value, the mean over seeds."""
    # The last value of a run that diverged says nothing.
    finals = known(_final(points_of(run, name, scale)) for run in result.good)
    if finals:
        axes.axhline(statistics.fmean(finals), label=result.method, **style | REFERENCE)


def _final(points: Points) -> float | None:
    if not points:
        return None
    return points[max(points)]


def _scale_loss(axes: Any, results: Sequence[Result]) -> None:
    """Scale by the runs that did not diverge: one that did would press the others into a line."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    positive = _positive_losses(results)
    if not positive:
        return
    # Logarithmic, because training losses fall by orders of magnitude.
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(min(positive) / 1.3, max(positive) * 1.3)


def _positive_losses(results: Sequence[Result]) -> list[float]:
    """Return the training losses of the good runs, as far as a logarithmic scale has a place for them."""
    losses = known(row["train_loss"] for row in _rows(_good_runs(results)))
    return [loss for loss in losses if loss > 0]


def _good_runs(results: Sequence[Result]) -> list[OneRun]:
    return [run for result in results for run in result.good]


def _dress(axes: Any, label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel(label)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
