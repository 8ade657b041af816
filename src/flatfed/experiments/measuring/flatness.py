"""Measurements of several runs, one laboratory at a time. Maps of their features: `feature_maps.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from flatfed.core.errors import FlatfedError
from flatfed.core.model.full_space import Space
from flatfed.core.round.federation import Federation
from flatfed.core.task.examples import targets_of
from flatfed.core.task.task import Task
from flatfed.engines.choice import Workers
from flatfed.experiments.comparing.comparison import Flatness
from flatfed.experiments.measuring.laboratory import Laboratory, Weights, laboratory
from flatfed.experiments.measuring.progress import Failures, OnStep, Say, nobody
from flatfed.experiments.measuring.saved_runs import SavedRun, labels, open_all
from flatfed.experiments.spelling.methods import names_of
from flatfed.flatness.measurement import Measurement, MeasurementResult
from flatfed.reports.flatness import MajorityClass, Measured
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import Row


def measure_runs(
    runs: Sequence[Path | SavedRun],
    measurements: Sequence[Measurement],
    *,
    data: str = "train",
    samples: int | None = None,
    seed: int = 0,
    weights: Weights = "evaluated",
    space: Space = "trained",
    data_dir: str | None = None,
    workers: Workers | None = None,
    on_step: OnStep = nobody,
    say: Say = nobody,
    opened: Callable[..., Laboratory] = laboratory,
    classes: bool = False,
    called: Sequence[str] | None = None,
) -> list[Measured]:
    """Take the measurements of every run, or look them up.

    A measurement that means nothing for one of several runs is left out there, with a remark. `opened` opens a run;
    `classes` asks which class each client that was measured holds most of. `called` names the runs; by default they are
    called by their methods.
    """
    how: dict[str, Any] = {
        "data": data,
        "samples": samples,
        "seed": seed,
        "weights": weights,
        "space": space,
        "data_dir": data_dir,
        "workers": workers,
        "say": say,
    }
    saved = open_all(runs)
    measured, failures = list[Measured](), Failures(len(saved), say)
    for number, (run, label) in enumerate(zip(saved, called or labels(saved), strict=True)):
        steps = _Steps(label, on_step, number, len(saved), len(measurements))
        with failures.noted(label), opened(run, **how, on_step=steps.inner) as lab:
            results = _results(lab, measurements, steps, None if len(saved) == 1 else say)
            measured.append(_measured(run, lab, label, results, classes))
    failures.check(measured)
    return measured


class _Steps:
    """Tells of every step of a measurement beside how many measurements are done, of those of all runs."""

    def __init__(self, label: str, on_step: OnStep, run: int, runs: int, measurements: int) -> None:
        self.label = label
        self._on_step = on_step
        self._first, self._total = run * measurements, runs * measurements
        self._done = 0

    def begin(self, name: str, place: int) -> None:
        """Say which of the run's measurements begins."""
        self._done = self._first + place
        self.inner(name, 0, None)

    def inner(self, name: str, done: int, total: int | None) -> None:
        """Say what is being done within a measurement; how far that is does not show."""
        self._on_step(f"{self.label}: {name}" if name else self.label, self._done, self._total)


def _results(
    lab: Laboratory, measurements: Sequence[Measurement], steps: _Steps, say: Say | None
) -> dict[str, MeasurementResult]:
    """Return the results by name; with `say`, a measurement that fails is left out with a remark."""
    results: dict[str, MeasurementResult] = {}
    for place, (name, measurement) in enumerate(zip(names_of(measurements), measurements, strict=True)):
        steps.begin(name, place)
        try:
            # One at a time, so that one that fails does not take the others' results with it.
            results[name] = lab.measure(measurement)[measurement.id]
        except FlatfedError as error:
            if say is None:
                raise
            say(f"{steps.label}: {error}")
    return results


def _measured(
    run: SavedRun, lab: Laboratory, label: str, results: Mapping[str, MeasurementResult], classes: bool
) -> Measured:
    """Return a run's results with what stands beside them: the accuracy of that round, and how the run ended."""
    rows = _rows(run.directory, lab.run.round)
    return Measured(
        label,
        run.directory.path,
        lab.run.round,
        _accuracy(rows),
        results,
        "; ".join(filter(None, (lab.surface.note, lab.short_space))),
        rows,
        _standing(lab.run),
        majority_classes(lab.run.task, _clients(results)) if classes else {},
    )


def _rows(directory: RunDirectory, round: int) -> list[Row]:
    """Return the history up to a round: the model may be of an earlier checkpoint."""
    return [row for row in directory.rows if row["round"] < round]


def _accuracy(rows: Sequence[Row]) -> float | None:
    return rows[-1].get("test_accuracy") if rows else None


def _standing(federation: Federation) -> str:
    """Return a remark on a run that did not finish."""
    if federation.status == "finished":
        return ""
    rounds = federation.settings.rounds
    return f"this run is {federation.status}; measured is round {federation.round} of {rounds}"


def _clients(results: Mapping[str, MeasurementResult]) -> list[int]:
    """Return the clients that were measured by themselves."""
    by_name = [values for result in results.values() for values in result.clients.values()]
    return sorted(set().union(*by_name))


def majority_classes(task: Task, clients: Sequence[int]) -> dict[int, MajorityClass]:
    """Return the class that each client holds most of (of equal ones the first), where examples have one class."""
    majorities = {}
    for client in clients:
        targets = targets_of(task.examples(client))
        if _are_classes(targets):
            majorities[client] = _majority(task, targets)
    return majorities


def _are_classes(targets: torch.Tensor) -> bool:
    return targets.ndim == 1 and not targets.is_floating_point() and len(targets) > 0


def _majority(task: Task, targets: torch.Tensor) -> MajorityClass:
    counts = torch.bincount(targets.long())
    number = int(counts.argmax())
    return MajorityClass(number, task.class_name(number), float(counts[number]) / len(targets))


def measure_flatness(
    flatness: Flatness,
    runs: Sequence[RunDirectory],
    workers: Workers,
    on_run: OnStep = nobody,
    say: Say = nobody,
) -> None:
    """Measure every run that came to its end; where one cannot be measured, a remark says why and the others go on."""
    finished = list(filter(_is_finished, runs))
    for number, run in enumerate(finished):
        path = run.path
        steps = _Steps(f"flatness of {'/'.join(path.parts[-2:])}", on_run, number, len(finished), 1)
        steps.begin("", 0)
        saved, step = SavedRun(path, run), steps.inner
        try:
            with laboratory(saved, samples=flatness.samples, workers=workers, on_step=step, say=say) as lab:
                lab.measure(flatness.measurements)
        except FlatfedError as error:
            say(f"{path}: its flatness could not be measured: {error}")


def _is_finished(run: RunDirectory) -> bool:
    return run.status()["status"] == "finished"
