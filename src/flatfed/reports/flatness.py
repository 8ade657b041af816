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
        rows: the run's history up to there.
        remark: what else a reader should know.
    """

    label: str
    path: Path
    round: int
    accuracy: float | None
    readings: Mapping[str, Reading]
    note: str
    rows: Sequence[Row]
    remark: str = ""

    @property
    def numbers(self) -> dict[str, float]:
        """Every number that was read."""
        return {name: value for reading in self.readings.values() for name, value in reading.numbers.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the same, ready for JSON."""
        readings = {id: finite(reading.to_dict()) for id, reading in self.readings.items()}
        head = {"method": self.label, "path": str(self.path), "round": self.round, "accuracy": self.accuracy}
        return head | {"over": self.note, "readings": readings}


def tables(found: Sequence[Measured], width: int) -> list[Table]:
    """Return a row for every number and a column for every run; in several tables where one is too wide."""
    from rich.console import Console

    whole = _table(found)
    if len(found) == 1 or Console(width=1000).measure(whole).maximum <= width:
        return [whole]
    half = (len(found) + 1) // 2
    return [*tables(found[:half], width), *tables(found[half:], width)]


def _table(found: Sequence[Measured]) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    made.add_column("", no_wrap=True)
    for one in found:
        made.add_column(one.label, justify="right", overflow="fold")
    texts = [told(one) for one in found]
    for name in dict.fromkeys(name for text in texts for name in text):
        made.add_row(name, *(text.get(name, NOTHING) for text in texts))
    return made


def told(one: Measured) -> dict[str, str]:
    """Return a run's numbers as people read them; one that was read in several ways says how."""
    hidden, found = {*BOUNDS.values(), "lambda_products"}, dict[str, str]()
    for key, reading in one.readings.items():
        for name in reading.numbers:
            if name not in hidden:
                found[f"{name}, {key}" if "(" in key else name] = shown(reading.numbers, name)
    return found


def shown(numbers: Mapping[str, float], name: str) -> str:
    """Return a number as people read it, with how well it is known."""
    value, bound = numbers[name], numbers.get(BOUNDS.get(name, ""))
    if math.isnan(value):
        return NOTHING
    text = f"{100 * value:.2f} %" if name.endswith("accuracy") else f"{value:.5g}"
    return text + (f" ± {bound:.2g}" if bound is not None and math.isfinite(bound) else "")


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
