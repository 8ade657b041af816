"""The numbers of a model card: metrics of the history, and measurements that were kept beside the run."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from flatfed.core.errors import FlatfedError
from flatfed.experiments.exporting.exported_model import ExportedModel
from flatfed.flatness.measurement import MeasurementResult
from flatfed.reports.flatness import HIDDEN
from flatfed.runs.metrics import Metric, ended_after, metrics_of, summarise
from flatfed.runs.results import KeptResults

NOT_MEASURED = "not measured"
CLIENT_ACCURACY = "client_accuracy"
CLASS_ACCURACY = "test_class_accuracy"


def test_lines(exported: ExportedModel) -> Iterator[str]:
    """Yield a table of each metric: after the last evaluated round, mean of the last ones, best."""
    config, rows = exported.config, list(exported.rows)
    settings = config["settings"]
    metrics = [metric for metric in metrics_of(rows, config) if metric.values(rows)]
    if not metrics:
        yield f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}."
        return
    summary = summarise(rows, _ended(exported), settings["evaluate_last"], config)
    yield "| metric | final | mean of the last rounds | best | after round |"
    yield "|---|---|---|---|---|"
    for metric in metrics:
        values = [summary.get(f"{metric.stem}_{kind}") for kind in ("final", "last_mean", "best")]
        if values[0] is None:  # a summary leaves out the loss beside another metric
            values = [metric.values(rows)[-1][1], None, metric.best(value for _, value in metric.values(rows))]
        cells = [_shown(metric, value) for value in values]
        yield f"| {metric.title} | {' | '.join(cells)} | {metric.values(rows)[-1][0] + 1} |"


def _ended(exported: ExportedModel) -> int:
    """Return the round that the averages end with: of a run that ended early, the last that was played."""
    return ended_after(exported.rows, exported.config["settings"]["rounds"], exported.status)


def _shown(metric: Metric, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{metric.scale * value:.2f}" if metric.scale != 1.0 else f"{value:.4f}"


def by_class(exported: ExportedModel) -> Iterator[str]:
    """Yield the test accuracy of each class after the last round in which it was measured."""
    measured = [row[CLASS_ACCURACY] for row in exported.rows if row.get(CLASS_ACCURACY)]
    if not measured:
        yield f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}."
        return
    yield "| class | test accuracy in % |"
    yield "|---|---|"
    for number, value in enumerate(measured[-1]):
        yield f"| {exported.task.class_name(number)} | {'–' if value is None else f'{100 * value:.1f}'} |"


def clients_spread(exported: ExportedModel) -> Iterator[str]:
    """Yield how the model does on the examples of single clients, where that was measured."""
    found = [(over, result) for id, over, result in _kept(exported) if id == CLIENT_ACCURACY]
    if not found:
        yield _how(f"flatfed flatness RUN --measure {CLIENT_ACCURACY}", exported)
        return
    over, result = found[-1]
    yield f"Over the clients' own training examples ({over})."
    yield ""
    for name, values in result.clients.items():
        finite = [value for value in values.values() if math.isfinite(value)]
        if finite:
            yield f"- {name.replace('_', ' ')}: {_spread(name, finite)} ({len(finite)} clients)"


def _spread(name: str, values: Sequence[float]) -> str:
    scale, unit = (100.0, " %") if name.endswith("accuracy") else (1.0, "")
    numbers = {
        "mean": statistics.fmean(values),
        "lowest": min(values),
        "median": statistics.median(values),
        "highest": max(values),
    }
    return ", ".join(f"{which} {scale * value:.4g}{unit}" for which, value in numbers.items())


def flatness_lines(exported: ExportedModel) -> Iterator[str]:
    """Yield what was measured of the loss around this model."""
    kept = [entry for entry in _kept(exported) if entry[0] != CLIENT_ACCURACY]
    numbers = [
        f"| {name} | {value:.6g} | {id}: {over} |"
        for id, over, result in kept
        for name, value in result.numbers.items()
        if name not in HIDDEN and math.isfinite(value)
    ]
    if not numbers:
        yield _how("flatfed flatness RUN", exported)
        return
    yield "| number | value | how |"
    yield "|---|---|---|"
    yield from numbers


def _how(command: str, exported: ExportedModel) -> str:
    """Return that something was not measured and, of a run with a directory, the command that measures it."""
    said = f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}"
    return f"{said}; `{command}` does, before the export." if exported.path is not None else f"{said}."


def _kept(exported: ExportedModel) -> list[tuple[str, str, MeasurementResult]]:
    """Return the measurements of just this model: id, how, and what it gave."""
    if exported.path is None:
        return []
    try:
        entries = KeptResults(exported.path).of_round([exported.round])
    except FlatfedError:  # a damaged file of measurements does not cost the model
        return []
    kept = []
    for key, result in entries:
        if key.get("weights", exported.weights) == exported.weights:
            measured, sample = key.get("measurement") or {}, key.get("sample") or {}
            space = {"space": key["space"]} if "space" in key else {}
            parts = (measured, sample, space)
            options = [f"{name}={value}" for part in parts for name, value in part.items() if name != "id"]
            kept.append((str(measured.get("id", "")), ", ".join(options), MeasurementResult.from_dict(result)))
    return kept
