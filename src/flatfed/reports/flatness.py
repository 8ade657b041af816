"""What was measured of several runs: as a table for people, as JSON, and as figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.core.errors import ConfigError
from flatfed.flatness.measurement import Reading
from flatfed.flatness.measurements.radius import RADIUS
from flatfed.flatness.results import Spectrum
from flatfed.reports.tables.sheets import EMPTY, NOTHING, Cell, Sheet
from flatfed.runs.history import Row
from flatfed.runs.results import finite

BOUNDS = {"lambda_max": "lambda_max_residual", "trace": "trace_error", "lpf": "lpf_error"}
"""Numbers that come with how well they are known; shown as ±."""
OF_NO_RADIUS = ("heterogeneity", "batch_deviation")
"""Numbers of a measurement with a radius that do not depend on it."""


@dataclass(frozen=True)
class Held:
    """The class that a client holds most of: its number, its name, and its share of the client's examples."""

    number: int
    name: str
    share: float

    def __str__(self) -> str:
        return self.name if self.share == 1 else f"{self.name} ({min(round(100 * self.share), 99)} %)"


@dataclass(frozen=True)
class Measured:
    """One run's readings.

    Attributes:
        label: the method, with what tells equal ones apart.
        path: the run directory.
        round: after how many rounds.
        accuracy: the final test accuracy, or None.
        readings: by measurement.
        note: over which examples losses were taken.
        rows: the run's history up to there.
        remark: what else a reader should know.
        classes: by client that was measured, the class it holds most of.
    """

    label: str
    path: Path
    round: int
    accuracy: float | None
    readings: Mapping[str, Reading]
    note: str
    rows: Sequence[Row]
    remark: str = ""
    classes: Mapping[int, Held] = field(default_factory=dict)

    @property
    def by_client(self) -> dict[str, Mapping[int, float]]:
        """Every number that was read of single clients, by name; one that was read in several ways says how."""
        found: dict[str, Mapping[int, float]] = {}
        for key, reading in self.readings.items():
            for name, values in reading.clients.items():
                found[f"{name}, {key}" if "(" in key else name] = values
        return found

    def holds(self, client: int) -> str:
        """Return what a client holds most of, for people; nothing where there are no classes."""
        return str(self.classes.get(client, ""))

    @property
    def numbers(self) -> dict[str, float]:
        """Every number that was read."""
        return {name: value for reading in self.readings.values() for name, value in reading.numbers.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        readings = {id: finite(reading.to_dict()) for id, reading in self.readings.items()}
        head = {"method": self.label, "path": str(self.path), "round": self.round, "accuracy": self.accuracy}
        told = head | {"over": self.note, "readings": readings}
        held = {str(client): vars(held) for client, held in self.classes.items()}
        return told | ({"client_classes": held} if held else {})


Make = Callable[[Sequence[Measured]], Sheet]


def tables(found: Sequence[Measured], width: int, make: Make) -> list[Sheet]:
    """Return one table of all runs, or several with some of the runs where one is too wide."""
    from rich.console import Console

    whole = make(found)
    if len(found) == 1 or Console(width=1000).measure(whole.terminal()).maximum <= width:
        return [whole]
    half = (len(found) + 1) // 2
    return [*tables(found[:half], width, make), *tables(found[half:], width, make)]


def by_number(found: Sequence[Measured]) -> Sheet:
    """Return a row for every number and a column for every run.

    Numbers of one measurement that were taken within different radii stand in rows of their own.
    """
    several = _several_radii(found)
    columns = [_cells(one, several) for one in found]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [[Cell(name, name), *(column.get(name, EMPTY) for column in columns)] for name in names]
    return Sheet(["", *(one.label for one in found)], rows)


def by_client(found: Sequence[Measured]) -> Sheet:
    """Return a row for every client, with the class it holds most of, and columns for every run; last their means."""
    columns = [(one, name) for one in found for name in one.by_client]
    if not columns:
        raise ConfigError("nothing that was measured has a number for each client; measure local_global, say")
    who = sorted({(client, one.holds(client)) for one, name in columns for client in one.by_client[name]})
    rows = [
        [
            Cell(str(client), client),
            Cell(held or NOTHING, held),
            *(_of_client(one, name, client, held) for one, name in columns),
        ]
        for client, held in who
    ]
    means = [_number(statistics.fmean(one.by_client[name].values()), name) for one, name in columns]
    heads = [f"{one.label}\n{name}" for one, name in columns]
    return Sheet(["client", "holds", *heads], [*rows, [Cell("mean", "mean"), Cell("", None), *means]], words=2)


def _of_client(one: Measured, name: str, client: int, held: str) -> Cell:
    values = one.by_client[name]
    return _number(values[client], name) if client in values and one.holds(client) == held else EMPTY


def _several_radii(found: Sequence[Measured]) -> set[str]:
    """Return the measurements whose radii differ between runs."""
    radii: dict[str, set[float]] = {}
    for one in found:
        for key, reading in one.readings.items():
            if RADIUS in reading.numbers:
                radii.setdefault(key, set()).add(reading.numbers[RADIUS])
    return {key for key, values in radii.items() if len(values) > 1}


def _cells(one: Measured, several: Collection[str] = ()) -> dict[str, Cell]:
    """Return a run's numbers as people read them; one that was read in several ways says how."""
    hidden, cells = {*BOUNDS.values(), "lambda_products", RADIUS}, dict[str, Cell]()
    for key, reading in one.readings.items():
        within = f", radius {reading.numbers[RADIUS]:g}" if key in several else ""
        for name in reading.numbers:
            if name not in hidden:
                row = name if name in OF_NO_RADIUS else f"{name}{within}"
                cells[f"{row}, {key}" if "(" in key else row] = _cell(reading.numbers, name)
    return cells


def _cell(numbers: Mapping[str, float], name: str) -> Cell:
    """Return a number as people read it, with how well it is known."""
    cell, bound = _number(numbers[name], name), numbers.get(BOUNDS.get(name, ""))
    known = cell.value is not None and bound is not None and math.isfinite(bound)
    return Cell(f"{cell.text} ± {bound:.2g}", cell.value) if known else cell


def _number(value: float, name: str) -> Cell:
    if math.isnan(value):
        return EMPTY
    return Cell(f"{100 * value:.2f} %" if name.endswith("accuracy") else f"{value:.5g}", value)


def verdicts(found: Sequence[Measured]) -> list[str]:
    """Return how well the readings are known: one line for each that has something to say."""
    lines = []
    for one in found:
        words = [f"{id}: {reading.verdict}" for id, reading in one.readings.items() if reading.verdict]
        lines += [f"{one.label}: " + "; ".join(words)] if words else []
    return lines


def draw(found: Sequence[Measured], folder: Path) -> list[Path]:
    """Draw what can be drawn of the readings and return the files."""
    from flatfed.reports.figures.scatter import draw_scatter
    from flatfed.reports.figures.spectra import draw_spectra

    files: list[Path] = []
    spectra = [spectrum for one in found if (spectrum := _spectrum(one)) is not None]
    if spectra:
        files += (pair := _pair(folder, "spectra"))
        draw_spectra(spectra, pair)
    points = [(_method(one), lam, 100 * one.accuracy) for one in found if (lam := _lambda(one)) and one.accuracy]
    if len(points) > 1:
        files += (pair := _pair(folder, "accuracy-lambda"))
        draw_scatter(points, pair, "λmax", "test accuracy (%)")
    return files + _draw_trends(found, folder)


def _draw_trends(found: Sequence[Measured], folder: Path) -> list[Path]:
    """Draw the numbers of single clients that monitors took over the rounds, a figure for each run and number."""
    from flatfed.reports.figures.trends import draw_client_trends

    files: list[Path] = []
    for one in found:
        rows = [row for row in one.rows if row.get("clients_watch")]
        for name in dict.fromkeys(name for row in rows for name in row["clients_watch"]):
            told = [(row["round"] + 1, row["clients_watch"][name]) for row in rows if name in row["clients_watch"]]
            clients = sorted({int(client) for _, by in told for client in by})
            scale, unit = (100, " (%)") if name.endswith("accuracy") else (1, "")
            values = {client: [_scaled(by.get(str(client)), scale) for _, by in told] for client in clients}
            files += (pair := _pair(folder, f"{_file_name(one.label)}-{name}"))
            words = f"{name.replace('_', ' ')}{unit}"
            draw_client_trends([round for round, _ in told], values, pair, words, one.label)
    return files


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else scale * value


def _spectrum(one: Measured) -> Spectrum | None:
    reading = next((r for r in one.readings.values() if "eigenvalues" in r.series), None)
    if reading is None:
        return None
    values, residuals, points, weights = (
        np.array(reading.series.get(name, [])) for name in ("eigenvalues", "residuals", "points", "weights")
    )
    return Spectrum(one.label, values, residuals, points, weights, one.note)


def _lambda(one: Measured) -> float | None:
    value = one.numbers.get("lambda_max")
    return value if value is not None and value > 0 else None


def _method(one: Measured) -> str:
    return one.label.partition(" seed")[0]


def _pair(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.png", folder / f"{name}.svg"]


def _file_name(label: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "+-" else "-" for letter in label)
