"""Measurements of several runs, one laboratory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from flatfed.core.errors import FlatfedError
from flatfed.experiments.compare import is_comparison, runs_in
from flatfed.experiments.laboratory import Weights, laboratory
from flatfed.experiments.measures import written
from flatfed.flatness.features import embedding
from flatfed.flatness.measurement import Measurement, Reading
from flatfed.flatness.results import Embedding
from flatfed.flatness.sample import Sample
from flatfed.reports.flatness import Measured
from flatfed.runs.directory import RunDirectory

OnStep = Callable[[str, int, int | None], None]
MAPPED = 3_000
"""Test examples on a map of features."""


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
) -> list[Measured]:
    """Take the measurements of every run, or look them up.

    A measurement that means nothing for one of several runs is left out there, and told of.
    """
    found, total, done = [], len(paths) * len(measurements), 0
    for path, label in zip(paths, labels(paths), strict=True):
        readings: dict[str, Reading] = {}
        with laboratory(
            path,
            data=data,
            samples=samples,
            seed=seed,
            weights=weights,
            data_dir=data_dir,
            workers=workers,
            say=say,
        ) as lab:
            for measurement in measurements:
                on_step(f"{label}: {written(measurement)}", done, total)
                done += 1
                try:
                    readings |= lab.measure(measurement)
                except FlatfedError as error:
                    if len(paths) == 1:
                        raise
                    say(f"{label}: {error}")
            assert lab.federation is not None
            assert lab.path is not None
            note, round = lab.surface.note, lab.federation.round
            directory = RunDirectory.open(lab.path)
        accuracy = directory.summary()["accuracy_final"]
        found.append(Measured(label, lab.path, round, accuracy, readings, note, directory.history().rows))
    return found


def map_features(
    paths: Sequence[Path], seed: int = 0, data_dir: str | None = None, test: str = "test"
) -> list[Embedding]:
    """Return a t-SNE map of each run's penultimate features of test examples."""
    maps = []
    for path, label in zip(paths, labels(paths), strict=True):
        with laboratory(path, data=test, samples=MAPPED, data_dir=data_dir, workers=0) as lab:
            maps.append(embedding(lab.surface.over(Sample(test, MAPPED)), label, seed))
    return maps


def runs_named(paths: Sequence[Path]) -> list[Path]:
    """Return the runs and checkpoints that paths stand for; a comparison stands for all its runs."""
    return [run for path in paths for run in (runs_in(path) if is_comparison(path) else [path])]


def labels(paths: Sequence[Path]) -> list[str]:
    """Return a name for each run: the method, with the seed, the round or a number where methods are equal."""
    methods = [_method(path) for path in paths]
    told = [
        name if methods.count(name) == 1 else f"{name} {_detail(p)}" for name, p in zip(methods, paths, strict=True)
    ]
    return [name if told.count(name) == 1 else f"{name} #{place + 1}" for place, name in enumerate(told)]


def _method(path: Path) -> str:
    return str(RunDirectory.open(_home(path)).config["method"])


def _detail(path: Path) -> str:
    home = _home(path)
    round = f" round {int(path.name.removeprefix('round-'))}" if home != path else ""
    return f"seed {RunDirectory.open(home).config['settings']['seed']}{round}"


def _home(path: Path) -> Path:
    return path.parent.parent if path.parent.name == "checkpoints" else path
