"""What `flatfed flatness` measured of runs and kept beside them: numbers over seeds, and spectra."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from flatfed.core.errors import FlatfedError
from flatfed.flatness.measurement import MeasurementResult
from flatfed.reports.figures.densities import smoothed
from flatfed.reports.flatness import HIDDEN
from flatfed.reports.page.page_tables import TableData, table_data
from flatfed.reports.page.series import rounded
from flatfed.reports.page.thin import kept_places
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.tables.grid import columns_of, number, spread_of
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.packed import newest_round
from flatfed.runs.results import KeptResults

MOST_EIGENVALUES, MOST_PLACES = 100, 800
"""Of a spectrum: bars, and places at which its density is drawn."""


@dataclass(frozen=True)
class KeptMeasurement:
    """One measurement of a run's newest model.

    Attributes:
        id: of the measurement.
        options: how it was measured, and over which examples.
        result: what it gave.
    """

    id: str
    options: str
    result: MeasurementResult


def kept_measurements(run: OneRun) -> list[KeptMeasurement]:
    """Return what was measured of a run's model as it is now; nothing of a run that has no directory."""
    if not is_run(run.path):
        return []
    try:
        # Its record was read already.
        latest = newest_round(run.path, RunDirectory(run.path, run.config).checkpoints.rounds())
        kept = KeptResults(run.path).of_round(latest)
        return [_measurement(key, result) for key, result in kept]
    except FlatfedError:  # a damaged file of measurements does not cost the page
        return []


def _measurement(key: dict[str, Any], result: dict[str, Any]) -> KeptMeasurement:
    measured = key.get("measurement") or {}
    options = [f"{name}={value}" for name, value in measured.items() if name != "id"]
    over = [f"{name}={value}" for name, value in (key.get("sample") or {}).items()]
    of = [f"weights={key.get('weights')}", *(f"{name}={key[name]}" for name in ("space", "protocol") if name in key)]
    text = ", ".join([*options, *over, *of])
    return KeptMeasurement(str(measured.get("id", "")), text, MeasurementResult.from_dict(result))


Measurements = dict[str, list[list[KeptMeasurement]]]
"""By method, for each of its runs."""


def measurements_of(results: Sequence[Result]) -> Measurements:
    """Return what was measured of every run."""
    return {result.method: [kept_measurements(run) for run in result.runs] for result in results}


def flatness_table(measurements: Measurements) -> TableData | None:
    """Return a row for each method and a column for each number, mean ± deviation over seeds.

    Numbers that were measured in different ways, or over different examples, stand in columns of their own.
    """
    ways = list(dict.fromkeys(map(_way, _every(measurements))))
    by_method = {method: _numbers(runs, ways) for method, runs in measurements.items()}
    heads = columns_of(list(by_method.values()))
    if not heads:
        return None
    rows = []
    for method, numbers in by_method.items():
        cells = [number(spread_of(numbers.get(head, []))) for head in heads]
        rows.append([method, *cells])
    caption = "Flatness of the final models, mean ± sample standard deviation over the seeds that were measured"
    notes = [f"[{place}] {way}" for place, way in enumerate(ways, start=1)]
    return table_data(["method", *heads], rows, caption=caption, notes=notes)


def _way(one: KeptMeasurement) -> str:
    return f"{one.id}: {one.options}"


def _numbers(runs: Sequence[Sequence[KeptMeasurement]], ways: Sequence[str]) -> dict[str, list[float]]:
    """Return the values of each number over the runs, under its name and the number of the way it was measured."""
    numbers: dict[str, list[float]] = {}
    for one in chain.from_iterable(runs):
        place = ways.index(_way(one)) + 1
        for name, value in one.result.numbers.items():
            if name not in HIDDEN and math.isfinite(value):
                numbers.setdefault(f"{name} [{place}]", []).append(value)
    return numbers


def _every(measurements: Measurements) -> Iterator[KeptMeasurement]:
    for runs in measurements.values():
        yield from chain.from_iterable(runs)


def spectra_data(measurements: Measurements) -> dict[str, Any] | None:
    """Return the largest eigenvalues of each method that has them, all measured in one way; None where none has."""
    return _in_one_way(measurements, _eigenvalues)


def densities_data(measurements: Measurements) -> dict[str, Any] | None:
    """Return the same of the density of all eigenvalues."""
    return _in_one_way(measurements, _density)


Reader = Callable[[MeasurementResult], dict[str, Any]]


def _in_one_way(measurements: Measurements, read: Reader) -> dict[str, Any] | None:
    """Return what is drawn of each method's first run that has it, in the way in which most methods were measured."""
    ways: dict[str, list[dict[str, Any]]] = {}
    for method, runs in measurements.items():
        found: dict[str, dict[str, Any]] = {}
        for one in chain.from_iterable(runs):
            drawn = read(one.result)
            if drawn:
                found.setdefault(_way(one), {"method": method, **drawn})
        for way, item in found.items():
            ways.setdefault(way, []).append(item)
    if not ways:
        return None
    way = max(ways, key=lambda name: (len(ways[name]), _size(ways[name])))
    return {"way": way, "items": ways[way]}


def _size(items: Sequence[dict[str, Any]]) -> int:
    return max(len(item["ys"]) for item in items)


def _eigenvalues(result: MeasurementResult) -> dict[str, Any]:
    values = [value for value in result.series.get("eigenvalues", []) if math.isfinite(value)][:MOST_EIGENVALUES]
    return {"ys": rounded(values)} if values else {}


def _density(result: MeasurementResult) -> dict[str, Any]:
    """Return the smoothed density of all eigenvalues; nothing where it was not measured."""
    points, weights = result.series.get("points", []), result.series.get("weights", [])
    if not points or len(points) != len(weights) or not np.isfinite([points, weights]).all():
        return {}
    xs, ys = smoothed(np.asarray(points), np.asarray(weights))
    places = kept_places(len(xs), MOST_PLACES)
    return {"xs": rounded(xs[places].tolist()), "ys": rounded(ys[places].tolist())}
