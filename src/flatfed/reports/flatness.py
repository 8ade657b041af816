"""What was measured of several runs: as a table for people, as JSON, and as figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flatfed.flatness.measurement import Reading
from flatfed.flatness.results import Spectrum
from flatfed.runs.history import Row
from flatfed.runs.readings import finite

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"
BOUNDS = {"lambda_max": "lambda_max_residual", "trace": "trace_error", "lpf": "lpf_error"}
"""Numbers that come with how well they are known; shown as ±."""


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
        rows: the run's history.
    """

    label: str
    path: Path
    round: int
    accuracy: float | None
    readings: Mapping[str, Reading]
    note: str
    rows: Sequence[Row]

    @property
    def numbers(self) -> dict[str, float]:
        """Every number that was read."""
        return {name: value for reading in self.readings.values() for name, value in reading.numbers.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        readings = {id: finite(reading.to_dict()) for id, reading in self.readings.items()}
        head = {"method": self.label, "path": str(self.path), "round": self.round, "accuracy": self.accuracy}
        return head | {"over": self.note, "readings": readings}


def table(found: Sequence[Measured]) -> Table:
    """Return a row for every number and a column for every run."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    made.add_column("")
    for one in found:
        made.add_column(one.label, justify="right", overflow="fold")
    hidden = {*BOUNDS.values(), "lambda_products"}
    for name in dict.fromkeys(name for one in found for name in one.numbers):
        if name not in hidden:
            made.add_row(name, *(shown(one.numbers, name) for one in found))
    return made


def shown(numbers: Mapping[str, float], name: str) -> str:
    """Return a number as people read it, with how well it is known."""
    value = numbers.get(name)
    if value is None:
        return NOTHING
    bound = numbers.get(BOUNDS.get(name, ""))
    told = f"{100 * value:.2f} %" if name.endswith("accuracy") else f"{value:.5g}"
    return told + (f" ± {bound:.2g}" if bound is not None and math.isfinite(bound) else "")


def verdicts(found: Sequence[Measured]) -> list[str]:
    """Return how well the readings are known: one line for each that has something to say."""
    lines = []
    for one in found:
        told = [f"{id}: {reading.verdict}" for id, reading in one.readings.items() if reading.verdict]
        lines.append(f"{one.label}: " + "; ".join(told) if told else one.label)
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
            values = {client: [by.get(str(client)) for _, by in told] for client in clients}
            files += (pair := _pair(folder, f"{_file_name(one.label)}-{name}"))
            draw_client_trends([round for round, _ in told], values, pair, name.replace("_", " "), one.label)
    return files


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
