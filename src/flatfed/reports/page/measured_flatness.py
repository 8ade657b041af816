"""What `flatfed flatness` measured of runs and kept beside them: numbers over seeds, spectra, and numbers of clients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
        latest = RunDirectory.open(run.path).checkpoints.rounds()[:1]
        kept = KeptResults(run.path).of_round(latest)
        return [_measurement(key, result) for key, result in kept]
    except FlatfedError:  # a damaged file of measurements does not cost the page
        return []


def _measurement(key: dict[str, Any], result: dict[str, Any]) -> KeptMeasurement:
    measured = key.get("measurement") or {}
    options = [f"{name}={value}" for name, value in measured.items() if name != "id"]
    over = [f"{name}={value}" for name, value in (key.get("sample") or {}).items()]
    weights = f"weights={key.get('weights')}"
    text = ", ".join([*options, *over, weights])
    return KeptMeasurement(str(measured.get("id", "")), text, MeasurementResult.from_dict(result))


Measurements = dict[str, list[list[KeptMeasurement]]]
"""By method, for each of its runs."""


def measurements_of(results: Sequence[Result]) -> Measurements:
    """Return what was measured of every run."""
    return {result.method: [kept_measurements(run) for run in result.runs] for result in results}


def flatness_table(measurements: Measurements) -> TableData | None:
    """Return a row for each method and a column for each number, mean ± deviation over seeds."""
    by_method = {method: _numbers(runs) for method, runs in measurements.items()}
    names = columns_of(list(by_method.values()))
    if not names:
        return None
    rows = []
    for method, numbers in by_method.items():
        cells = [number(spread_of(numbers.get(name, []))) for name in names]
        rows.append([method, *cells])
    several = "mean ± sample standard deviation over the seeds that were measured"
    return table_data(["method", *names], rows, caption=f"Flatness of the final models, {several}", notes=_ways(measurements))


def _numbers(runs: Sequence[Sequence[KeptMeasurement]]) -> dict[str, list[float]]:
    """Return the values of each number over the runs; one that was measured in several ways counts in the last."""
    numbers: dict[str, list[float]] = {}
    for measured in runs:
        own = {name: value for one in measured for name, value in one.result.numbers.items()}
        for name, value in own.items():
            if name not in HIDDEN and math.isfinite(value):
                numbers.setdefault(name, []).append(value)
    return numbers


def _ways(measurements: Measurements) -> list[str]:
    """Say how each measurement was taken; where methods differ in it, all ways are there."""
    ways = {f"{one.id}: {one.options}": None for one in _every(measurements)}
    return list(ways)


def _every(measurements: Measurements) -> Iterator[KeptMeasurement]:
    for runs in measurements.values():
        for measured in runs:
            yield from measured


def spectra_data(measurements: Measurements) -> list[dict[str, Any]]:
    """Return the spectrum of each method's first run that has one: eigenvalues and, where it was asked for, density."""
    return [spectrum for method, runs in measurements.items() for spectrum in _first_spectrum(method, runs)]


def _first_spectrum(method: str, runs: Sequence[Sequence[KeptMeasurement]]) -> list[dict[str, Any]]:
    for measured in runs:
        for one in measured:
            values = _finite(one.result.series.get("eigenvalues", []))
            if values:
                return [{"method": method, "values": rounded(values), **_density(one.result)}]
    return []


def _density(result: MeasurementResult) -> dict[str, Any]:
    """Return the smoothed density of all eigenvalues; nothing where it was not measured."""
    points, weights = result.series.get("points", []), result.series.get("weights", [])
    if not points or len(points) != len(weights) or not np.isfinite([points, weights]).all():
        return {}
    xs, ys = smoothed(np.asarray(points), np.asarray(weights))
    places = kept_places(len(xs), MOST_PLACES)
    return {"xs": rounded(xs[places].tolist()), "density": rounded(ys[places].tolist())}


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)][:MOST_EIGENVALUES]
