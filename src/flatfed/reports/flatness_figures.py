"""Figures of what was measured of several runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats, Spectrum
from flatfed.flatness.measurement import MeasurementResult
from flatfed.reports.figures.drawing.writing import PictureFiles
from flatfed.reports.figures.scatter import draw_scatter
from flatfed.reports.figures.spectra import draw_spectra
from flatfed.reports.figures.trends import draw_client_trends
from flatfed.reports.flatness import Measured
from flatfed.reports.tables.grid import columns_of, known, known_items

CLIENTS = "clients_watch"
"""The column of the history with what monitors measured of single clients."""
SCATTER = "accuracy-lambda"


def draw(runs: Sequence[Measured], pictures: PictureFiles, title: str = "") -> list[Path]:
    """Draw what can be drawn of the results and return the files."""
    spectra = _draw_spectra(runs, pictures, title)
    # Where there are spectra, these are the main picture.
    name = pictures.part(SCATTER) if spectra else pictures.main(SCATTER)
    return [*spectra, *_draw_accuracies(runs, pictures.of(name), title), *_draw_trends(runs, pictures)]


def _draw_spectra(runs: Sequence[Measured], pictures: PictureFiles, title: str) -> list[Path]:
    spectra = known(map(_spectrum, runs))
    if not spectra:
        return []
    files = pictures.of(pictures.main("spectra"))
    draw_spectra(spectra, files, title)
    return files


def _spectrum(run: Measured) -> Spectrum | None:
    """Return the first spectrum that was measured of a run."""
    for result in run.results.values():
        if "eigenvalues" in result.series:
            values, residuals = _series(result, "eigenvalues"), _series(result, "residuals")
            points, weights = _series(result, "points"), _series(result, "weights")
            return Spectrum(run.label, values, residuals, points, weights, run.note)
    return None


def _series(result: MeasurementResult, name: str) -> Floats:
    return np.array(result.series.get(name, []))


def _draw_accuracies(runs: Sequence[Measured], files: list[Path], title: str) -> list[Path]:
    """Draw accuracy against sharpness, where at least two runs have both."""
    points = known(map(_point, runs))
    if len(points) < 2:
        return []
    draw_scatter(points, files, "λmax", "test accuracy (%)", title)
    return files


def _point(run: Measured) -> tuple[str, float, float] | None:
    """Return a run's method, sharpness and accuracy in per cent, or None where one of the two is not known."""
    sharpness = run.numbers.get("lambda_max", 0.0)
    # A sharpness of 0 or less has no place on a logarithmic axis.
    if not sharpness > 0 or not run.accuracy:
        return None
    # Seeds of one method share a colour and a mean.
    method = run.label.partition(" seed")[0]
    return method, sharpness, 100 * run.accuracy


def _draw_trends(runs: Sequence[Measured], pictures: PictureFiles) -> list[Path]:
    """Draw the numbers of single clients that monitors took over the rounds, a figure for each run and number."""
    files: list[Path] = []
    for run in runs:
        watched = {row["round"] + 1: row.get(CLIENTS) or {} for row in run.rows}
        for name in columns_of(list(watched.values())):
            by_round = known_items({round: numbers.get(name) for round, numbers in watched.items()})
            files += _draw_trend(run, name, by_round, pictures)
    return files


def _draw_trend(
    run: Measured, name: str, by_round: Mapping[int, Mapping[str, Any]], pictures: PictureFiles
) -> list[Path]:
    """Draw one number of single clients; `by_round` has it by client."""
    clients = sorted({int(client) for values in by_round.values() for client in values})
    scale, unit = _unit(name)
    curves = {client: _curve(client, by_round, scale) for client in clients}
    files = pictures.of(pictures.part(f"{_file_name(run.label)}-{name}"))
    draw_client_trends(list(by_round), curves, files, f"{name.replace('_', ' ')}{unit}", run.label)
    return files


def _unit(name: str) -> tuple[int, str]:
    """Return what a number is multiplied by, and its unit: accuracies are drawn in per cent."""
    if name.endswith("accuracy"):
        return 100, " (%)"
    return 1, ""


def _curve(client: int, by_round: Mapping[int, Mapping[str, Any]], scale: float) -> list[float | None]:
    """Return a client's number in each round; None where it has none."""
    return [_scaled(values.get(str(client)), scale) for values in by_round.values()]


def _scaled(value: float | None, scale: float) -> float | None:
    if value is None:
        return None
    return scale * value


def _file_name(label: str) -> str:
    """Return a label without what file systems do not like."""
    return re.sub(r"[^\w+-]|_", "-", label)
