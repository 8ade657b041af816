"""Measurements of several runs, one laboratory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.core.round.probe import last_round
from flatfed.core.task.examples import targets_of
from flatfed.core.task.task import Task
from flatfed.experiments.comparing.compare import is_comparison, runs_in
from flatfed.experiments.measuring.laboratory import Laboratory, Weights, is_checkpoint, laboratory
from flatfed.experiments.spelling.measurements import names_of
from flatfed.flatness.features import embedding, joint_embedding
from flatfed.flatness.measurement import Measurement, Reading
from flatfed.flatness.results import Embedding
from flatfed.reports.flatness import Held, Measured
from flatfed.runs.directory import RunDirectory

OnStep = Callable[[str, int, int | None], None]
MAPPED = 3_000
"""Points on a map of features."""


def measure_runs(
    paths: Sequence[Path],
    measurements: Sequence[Measurement],
    *,
    data: str = "train",
    samples: int | None = None,
    seed: int = 0,
    weights: Weights = "evaluated",
    data_dir: str | None = None,
    workers: int | str | None = None,
    on_step: OnStep = lambda name, done, total: None,
    say: Callable[[str], None] = lambda text: None,
    opened: Callable[..., Laboratory] = laboratory,
    classes: bool = False,
) -> list[Measured]:
    """Take the measurements of every run, or look them up.

    A measurement that means nothing for one of several runs is left out there, and told of. `opened` opens a run;
    `classes` asks which class each client that was measured holds most of.
    """
    found, errors, names = list[Measured](), list[FlatfedError](), list(names_of(measurements))
    for number, (path, label) in enumerate(zip(paths, labels(paths), strict=True)):
        first, total = number * len(names), len(paths) * len(names)
        steps = _Steps(label, on_step, total)
        where: dict[str, Any] = {"data_dir": data_dir, "workers": workers, "on_step": steps.inner}
        try:
            with opened(path, data=data, samples=samples, seed=seed, weights=weights, say=say, **where) as lab:
                readings: dict[str, Reading] = {}
                for place, (name, measurement) in enumerate(zip(names, measurements, strict=True)):
                    steps.begin(name, first + place)
                    try:
                        readings[name] = lab.measure(measurement)[measurement.id]
                    except FlatfedError as error:
                        if len(paths) == 1:
                            raise
                        say(f"{label}: {error}")
                found.append(_measured(lab, label, readings, classes))
        except FlatfedError as error:
            errors.append(error)
            if len(paths) > 1:
                say(f"{label}: {error}")
    if not found:
        raise errors[0]
    return found


class _Steps:
    """Tells of every step of a measurement beside how many measurements are done."""

    def __init__(self, label: str, on_step: OnStep, total: int) -> None:
        self._label, self._on_step, self._total, self._done = label, on_step, total, 0

    def begin(self, name: str, done: int) -> None:
        self._done = done
        self._on_step(f"{self._label}: {name}", done, self._total)

    def inner(self, name: str, done: int, total: int | None) -> None:
        self._on_step(f"{self._label}: {name}", self._done, self._total)


def _measured(lab: Laboratory, label: str, readings: dict[str, Reading], classes: bool) -> Measured:
    """Return a run's readings with what stands beside them: the accuracy of that round, and how the run ended."""
    assert lab.federation is not None
    assert lab.path is not None
    directory, round = RunDirectory.open(lab.path), lab.federation.round
    rows = [row for row in directory.history().rows if row["round"] < round]
    accuracy = rows[-1].get("test_accuracy") if rows else None
    status, rounds = directory.status()["status"], lab.federation.settings.rounds
    remark = "" if status == "finished" else f"this run is {status}; measured is round {round} of {rounds}"
    clients = {client for reading in readings.values() for by in reading.clients.values() for client in by}
    held = most_held(lab.federation.task, sorted(clients)) if classes else {}
    return Measured(label, lab.path, round, accuracy, readings, lab.surface.note, rows, remark, held)


def most_held(task: Task, clients: Sequence[int]) -> dict[int, Held]:
    """Return the class that each client holds most of (of equal ones the first), where examples have one class."""
    found = dict[int, Held]()
    for client in clients:
        targets = targets_of(task.examples(client))
        if targets.ndim != 1 or targets.is_floating_point() or not len(targets):
            continue
        counts = torch.bincount(targets.long())
        number = int(counts.argmax())
        found[client] = Held(number, task.class_name(number), float(counts[number]) / len(targets))
    return found


def map_features(
    paths: Sequence[Path],
    seed: int = 0,
    data_dir: str | None = None,
    test: str = "test",
    weights: Weights = "evaluated",
) -> list[Embedding]:
    """Return a t-SNE map of each run's penultimate features of test examples."""
    maps = []
    for path, label in zip(paths, labels(paths), strict=True):
        with laboratory(path, data=test, samples=MAPPED, weights=weights, data_dir=data_dir, workers=0) as lab:
            maps.append(embedding(lab.surface, label, seed))
    return maps


def map_clients(
    paths: Sequence[Path],
    count: int,
    seed: int = 0,
    data_dir: str | None = None,
    test: str = "test",
) -> list[Embedding]:
    """Return a t-SNE map of each run: the same test examples under the global model and under clients' models.

    These are the models of the first `count` clients of the last round, before they were averaged. There are as many
    examples as make `MAPPED` points at most.
    """
    maps = []
    for path, label in zip(paths, labels(paths), strict=True):
        examples = MAPPED // (1 + count)
        with laboratory(path, data=test, samples=examples, weights="global", data_dir=data_dir, workers=0) as lab:
            assert lab.federation is not None
            models = sorted(last_round(lab.federation).models, key=lambda model: model.client)[:count]
            surfaces = {"global model": lab.surface}
            surfaces |= {f"client {model.client}": lab.surface.at(model.w, model.buffers) for model in models}
            maps.append(joint_embedding(surfaces, label, seed, lab.surface.task.class_names))
    return maps


def runs_named(paths: Sequence[Path]) -> list[Path]:
    """Return the runs and checkpoints that paths stand for; a comparison stands for all its runs."""
    runs = [run for path in paths for run in (runs_in(path) if is_comparison(path) else [path])]
    if not runs:
        raise ConfigError(f"{paths[0]} holds no run yet")
    return runs


def labels(paths: Sequence[Path]) -> list[str]:
    """Return a name for each run: the method, with the seed, the round or a number where methods are equal."""
    methods = [_method(path) for path in paths]
    told = [
        name if methods.count(name) == 1 else f"{name} {_detail(p)}" for name, p in zip(methods, paths, strict=True)
    ]
    return [name if told.count(name) == 1 else f"{name} #{place + 1}" for place, name in enumerate(told)]


def _method(path: Path) -> str:
    return str(RunDirectory.open(home_of(path)).config["method"])


def _detail(path: Path) -> str:
    home = home_of(path)
    round = f" round {int(path.name.removeprefix('round-'))}" if home != path else ""
    return f"seed {RunDirectory.open(home).config['settings']['seed']}{round}"


def home_of(path: Path) -> Path:
    """Return the run directory of a run or of one of its checkpoints."""
    return path.parent.parent if is_checkpoint(path) else path
