"""Curves for drawing: each number of the histories, with its range over seeds, over rounds and costs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from flatfed.reports.curves import (
    Points,
    axis_name,
    by_round,
    default_names,
    drawable,
    is_centralised,
    points_of,
    rounds_of,
)
from flatfed.reports.curves import scale_of as scale_of_number
from flatfed.reports.drawn_rounds import ON_A_PAGE, DrawnRounds, density_note
from flatfed.reports.page.thin import thinned
from flatfed.reports.results.result import OneRun, Result, all_runs
from flatfed.reports.tables.grid import known
from flatfed.runs.history import Row

COSTS = ("bytes", "backprops", "seconds")
LEFT_OUT = {"bytes_down", "bytes_up", "backprops", "seconds", "attempts"}
"""Numbers of a history that are axes here, and no curves."""
DIGITS = 6
"""Significant digits of what is drawn."""
Curve = dict[str, Any]


def curves_data(results: Sequence[Result], most: int) -> dict[str, Any] | None:
    """Return the curves of every number that is drawn; None where no round was played."""
    names = numbers_of(results)
    if not names:
        return None
    metrics = [_described(results, name) for name in names]
    curves = [_curves(result, results, names, most) for result in results]
    remarks = [_thinned_text(results, names, most), _density_text(results, names)]
    return {"metrics": metrics, "methods": curves, "thinned": " ".join(filter(None, remarks))}


def numbers_of(results: Sequence[Result]) -> list[str]:
    """Return what can be drawn, the primary metric and the training loss first."""
    there = set(drawable(results)) - LEFT_OUT
    first = [name for name in default_names(results) if name in there]
    metrics = [metric.column for result in results for metric in result.metrics if metric.column in there]
    return list(dict.fromkeys([*first, *metrics, *sorted(there)]))


def measured_over_rounds(results: Sequence[Result]) -> list[str]:
    """Return the numbers that monitors took: those that are there in some rounds only, while methods watch in all."""
    names: dict[str, None] = {}
    for run in all_runs(results):
        if run.config.get("watch"):
            names |= dict.fromkeys(_of_monitors(run.rows))
    return list(names)


def _of_monitors(rows: Sequence[Row]) -> list[str]:
    counts: dict[str, int] = {}
    for row in rows:
        for name in row.get("watch", {}):
            counts[name] = counts.get(name, 0) + 1
    # A monitor that measures in every round is known by its name.
    return [name for name, count in counts.items() if count < len(rows) or name.startswith(("lambda", "lpf"))]


def _described(results: Sequence[Result], name: str) -> dict[str, Any]:
    # Losses fall by orders of magnitude, and so does sharpness.
    is_logarithmic = name == "train_loss" or name.startswith("lambda")
    return {"name": name, "label": axis_name(results, name), "log": is_logarithmic}


def _curves(result: Result, results: Sequence[Result], names: Sequence[str], most: int) -> Curve:
    """Return a method's curves: costs at the rounds that are drawn, and for each number which of these have it."""
    values = {name: _values(result, name, scale_of_number(results, name)) for name in names}
    drawn = {name: _fewer(rounds_of(result, own), most) for name, own in values.items()}
    rounds = sorted({round for own in drawn.values() for round in [*own.even, *_flat(own.stretches)]})
    places = {round: place for place, round in enumerate(rounds)}
    series = {name: _series_of(values[name], drawn[name], places) for name in names if values[name]}
    # Lines to hold the others against: rounds of training on the pooled data are no rounds.
    is_reference = is_centralised(result) and not all(map(is_centralised, results))
    diverged = [run.seed for run in result.runs if run.summary["status"] == "diverged"]
    axes = {"round": rounds, **_costs_at(result.runs, rounds)}
    return {"method": result.method, "reference": is_reference, "diverged": diverged, "x": axes, "series": series}


def _values(result: Result, name: str, scale: float) -> dict[int, list[float]]:
    """Return the values of all seeds by round (from 1)."""
    return by_round([_finite_points(points_of(run, name, scale)) for run in result.runs])


def _fewer(drawn: DrawnRounds, most: int) -> DrawnRounds:
    """Return as many rounds as a page draws."""
    stretches = [thinned(stretch, most) for stretch in drawn.stretches]
    return DrawnRounds(thinned(drawn.even, most), stretches, drawn.every)


def _flat(stretches: Iterable[Sequence[int]]) -> list[int]:
    return [round for stretch in stretches for round in stretch]


def _finite_points(points: Points) -> Points:
    """Return the points that have a place on an axis: a run that diverges may have others."""
    return {round: value for round, value in points.items() if math.isfinite(value)}


def _series_of(values: Mapping[int, Sequence[float]], drawn: DrawnRounds, places: Mapping[int, int]) -> Curve:
    """Return the curve through evenly spaced rounds and, where there are some, those of denser stretches."""
    curve = _series({round: values[round] for round in drawn.even}, places)
    if drawn.stretches:
        curve["dense"] = [_means({round: values[round] for round in own}, places) for own in drawn.stretches]
    return curve


def _means(values: Mapping[int, Sequence[float]], places: Mapping[int, int]) -> Curve:
    return {
        "at": [places[round] for round in values],
        "mean": rounded(map(statistics.fmean, values.values())),
    }


def _series(values: Mapping[int, Sequence[float]], places: Mapping[int, int]) -> Curve:
    curve = _means(values, places)
    if any(len(own) > 1 for own in values.values()):
        curve |= {"low": rounded(map(min, values.values())), "high": rounded(map(max, values.values()))}
    return curve


def rounded(values: Iterable[float]) -> list[float]:
    """Return values with as many digits as a screen can show."""
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _costs_at(runs: Sequence[OneRun], rounds: Sequence[int]) -> dict[str, list[float]]:
    """Return what a run had spent after each of the rounds, the mean over the seeds that came so far."""
    totals = [_totals(run.rows) for run in runs]
    return {name: rounded(_mean_at(round, [own[name] for own in totals]) for round in rounds) for name in COSTS}


def _totals(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Return each cost added up, by round (from 1)."""
    rounds = [row["round"] + 1 for row in rows]
    each = {
        "bytes": [row["bytes_down"] + row["bytes_up"] for row in rows],
        "backprops": [row["backprops"] for row in rows],
        "seconds": [row["seconds"] for row in rows],
    }
    return {name: dict(zip(rounds, accumulate(values), strict=True)) for name, values in each.items()}


def _mean_at(round: int, totals: Sequence[Mapping[int, float]]) -> float:
    return statistics.fmean(known(own.get(round) for own in totals))


def _thinned_text(results: Sequence[Result], names: Sequence[str], most: int) -> str:
    """Say how many of the rounds are drawn, where not all are."""
    longest = max(_most_values(result, name) for result in results for name in names)
    if longest <= most:
        return ""
    return (
        f"Of up to {longest:,} rounds each curve shows at most {most}, evenly spaced, the first and the last included."
    )


def _density_text(results: Sequence[Result], names: Sequence[str]) -> str:
    """Say where rounds were evaluated more often than elsewhere, once for all curves."""
    drawn = (rounds_of(result, _values(result, name, 1.0)) for result in results for name in names)
    return density_note(drawn, ON_A_PAGE)


def _most_values(result: Result, name: str) -> int:
    return len(by_round([points_of(run, name, 1.0) for run in result.runs]))
