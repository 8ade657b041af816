"""What was measured of several runs: as a table for people, and as JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.flatness.measurement import MeasurementResult
from flatfed.flatness.measurements.radius import RADIUS
from flatfed.reports.tables.grid import EMPTY, NOTHING, Sheet, SheetCell, columns_of, in_parts, known_items
from flatfed.runs.history import Row
from flatfed.runs.results import finite

BOUNDS = {
    "lambda_max": "lambda_max_residual",
    "gauss_newton_max": "gauss_newton_residual",
    "trace": "trace_error",
    "lpf": "lpf_error",
}
"""Numbers that come with how well they are known; shown as ±."""
OF_NO_RADIUS = ("heterogeneity", "batch_deviation")
"""Numbers of a measurement with a radius that do not depend on it."""
HIDDEN = {*BOUNDS.values(), "lambda_products", "gauss_newton_products", RADIUS}
"""Numbers without a row of their own."""


@dataclass(frozen=True)
class MajorityClass:
    """The class that a client holds most of: its number, its name, and its share of the client's examples."""

    number: int
    name: str
    share: float

    def __str__(self) -> str:
        if self.share == 1:
            return self.name
        # 99.6 % is not all: what is rounded must not look so.
        percent = min(round(100 * self.share), 99)
        return f"{self.name} ({percent} %)"


@dataclass(frozen=True)
class Measured:
    """One run's results.

    Attributes:
        label: the method, with what tells equal ones apart.
        path: the run directory.
        round: after how many rounds.
        accuracy: the final test accuracy, or None.
        results: by measurement.
        note: over which examples losses were taken.
        rows: the run's history up to there.
        remark: what else a reader should know.
        classes: by client that was measured, the class it holds most of.
    """

    label: str
    path: Path
    round: int
    accuracy: float | None
    results: Mapping[str, MeasurementResult]
    note: str
    rows: Sequence[Row]
    remark: str = ""
    classes: Mapping[int, MajorityClass] = field(default_factory=dict)

    @property
    def by_client(self) -> dict[str, Mapping[int, float]]:
        """Every number that was read of single clients, by name; one that was read in several ways says how."""
        numbers: dict[str, Mapping[int, float]] = {}
        for key, result in self.results.items():
            numbers |= {row_name(name, key): values for name, values in result.clients.items()}
        return numbers

    def holds(self, client: int) -> str:
        """Return what a client holds most of, for people; nothing where there are no classes."""
        return str(self.classes.get(client, ""))

    @property
    def numbers(self) -> dict[str, float]:
        """Every number that was read."""
        return {name: value for result in self.results.values() for name, value in result.numbers.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        record: dict[str, Any] = {
            "method": self.label,
            "path": str(self.path),
            "round": self.round,
            "accuracy": self.accuracy,
            "over": self.note,
            "results": {id: finite(result.to_dict()) for id, result in self.results.items()},
        }
        if self.classes:
            record["client_classes"] = {str(client): vars(majority) for client, majority in self.classes.items()}
        return record


def row_name(name: str, key: str) -> str:
    """Return the name of a number's row; a measurement with options of its own says which."""
    if "(" in key:
        return f"{name}, {key}"
    return name


Make = Callable[[Sequence[Measured]], Sheet]


def tables(runs: Sequence[Measured], width: int, make: Make) -> list[Sheet]:
    """Return one table of all runs, or several with some of the runs where one is too wide."""
    return in_parts(runs, make, Sheet.terminal, width)


def by_number(runs: Sequence[Measured]) -> Sheet:
    """Return a row for every number and a column for every run.

    Numbers of one measurement that were taken within different radii stand in rows of their own.
    """
    several = _several_radii(runs)
    columns = [_cells(run, several) for run in runs]
    rows = [_row(name, columns) for name in columns_of(columns)]
    return Sheet(["", *(run.label for run in runs)], rows)


def _row(name: str, columns: Sequence[Mapping[str, SheetCell]]) -> list[SheetCell]:
    return [SheetCell(name, name), *(column.get(name, EMPTY) for column in columns)]


@dataclass(frozen=True)
class _ClientColumn:
    """One number of single clients, of one run."""

    run: Measured
    name: str

    @property
    def values(self) -> Mapping[int, float]:
        return self.run.by_client[self.name]

    @property
    def head(self) -> str:
        return f"{self.run.label}\n{self.name}"

    @property
    def clients(self) -> set[tuple[int, str]]:
        """The clients that have a value, each with what it holds most of."""
        return {(client, self.run.holds(client)) for client in self.values}

    @property
    def mean(self) -> SheetCell:
        return _number(statistics.fmean(self.values.values()), self.name)

    def cell(self, client: int, held: str) -> SheetCell:
        # Runs with different partitions have clients of one number that are not the same client.
        values = self.values
        if client not in values or self.run.holds(client) != held:
            return EMPTY
        return _number(values[client], self.name)


def by_client(runs: Sequence[Measured]) -> Sheet:
    """Return a row for every client, with the class it holds most of, and columns for every run; last their means."""
    columns = _client_columns(runs)
    if not columns:
        raise ConfigError("nothing that was measured has a number for each client; measure local_global, say")
    rows = [_client_row(client, held, columns) for client, held in _clients(columns)]
    heads = ["client", "holds", *(column.head for column in columns)]
    return Sheet(heads, [*rows, _mean_row(columns)], words=2)


def _client_columns(runs: Sequence[Measured]) -> list[_ClientColumn]:
    return [_ClientColumn(run, name) for run in runs for name in run.by_client]


def _mean_row(columns: Sequence[_ClientColumn]) -> list[SheetCell]:
    return [SheetCell("mean", "mean"), SheetCell("", None), *(column.mean for column in columns)]


def _clients(columns: Sequence[_ClientColumn]) -> list[tuple[int, str]]:
    """Return the clients of all columns, each with what it holds most of."""
    return sorted({client for column in columns for client in column.clients})


def _client_row(client: int, held: str, columns: Sequence[_ClientColumn]) -> list[SheetCell]:
    names = [SheetCell(str(client), client), SheetCell(held or NOTHING, held)]
    return [*names, *(column.cell(client, held) for column in columns)]


def _several_radii(runs: Sequence[Measured]) -> set[str]:
    """Return the measurements whose radii differ between runs."""
    radii: dict[str, set[float]] = {}
    for run in runs:
        for key, radius in _radii(run).items():
            radii.setdefault(key, set()).add(radius)
    return {key for key, values in radii.items() if len(values) > 1}


def _radii(run: Measured) -> dict[str, float]:
    """Return the radius of each measurement that has one."""
    return known_items({key: numbers.get(RADIUS) for key, numbers in _numbers(run).items()})


def _cells(run: Measured, several: Collection[str] = ()) -> dict[str, SheetCell]:
    """Return a run's numbers as people read them; one that was read in several ways says how."""
    cells: dict[str, SheetCell] = {}
    for key, numbers in _numbers(run).items():
        for name in _shown(numbers):
            row = _within_radius(name, numbers) if key in several else name
            cells[row_name(row, key)] = _cell(numbers, name)
    return cells


def _numbers(run: Measured) -> dict[str, Mapping[str, float]]:
    """Return the numbers of each measurement."""
    return {key: result.numbers for key, result in run.results.items()}


def _within_radius(name: str, numbers: Mapping[str, float]) -> str:
    """Return the name of a number with the radius within which it was taken, unless that does not matter."""
    if name in OF_NO_RADIUS:
        return name
    return f"{name}, radius {numbers[RADIUS]:g}"


def _shown(names: Iterable[str]) -> list[str]:
    """Return the numbers that have a row: how well one is known stands beside it."""
    return [name for name in names if name not in HIDDEN]


def _cell(numbers: Mapping[str, float], name: str) -> SheetCell:
    """Return a number as people read it, with how well it is known."""
    cell = _number(numbers[name], name)
    bound = numbers.get(BOUNDS.get(name, ""), math.nan)
    # The standard error of a single sample is infinite, and says nothing.
    if cell.value is None or not math.isfinite(bound):
        return cell
    return SheetCell(f"{cell.text} ± {bound:.2g}", cell.value)


def _number(value: float, name: str) -> SheetCell:
    if math.isnan(value):
        return EMPTY
    if _is_share(name):
        return SheetCell(f"{100 * value:.2f} %", value)
    return SheetCell(f"{value:.5g}", value)


def _is_share(name: str) -> bool:
    return name.endswith("accuracy")


def remarks(runs: Sequence[Measured]) -> list[str]:
    """Return how well the results are known: one line for each that has something to say."""
    texts = [(run.label, _remarks(run)) for run in runs]
    return [f"{label}: {text}" for label, text in texts if text]


def _remarks(run: Measured) -> str:
    return "; ".join(f"{id}: {result.remark}" for id, result in run.results.items() if result.remark)
