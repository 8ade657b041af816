"""Runs on disk that a command measures: each is opened once, whatever the command does with it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.task.task import Task
from flatfed.experiments.comparing.comparison import runs_in
from flatfed.experiments.running.run import best_round, open_run, with_data
from flatfed.experiments.tasks.recipe import task_of
from flatfed.flatness.measurement import Measurement, MeasurementResult
from flatfed.runs.directory import RunDirectory, is_comparison
from flatfed.runs.packed import newest_round
from flatfed.runs.results import KeptResults

CHECKPOINT = re.compile(r"checkpoints/(?:round-([0-9]+)|best)")


@dataclass(frozen=True)
class SavedRun:
    """A run directory, or one of its checkpoints, with its configuration read.

    Attributes:
        path: as it was named.
        directory: the run's records.
        round: which checkpoint; None is the newest good one.
        keeps_task: hold the task for a command that opens the run again: it loads the data and builds the model.
    """

    path: Path
    directory: RunDirectory
    round: int | None = None
    keeps_task: bool = False
    _tasks: dict[str, Task] = field(default_factory=dict, repr=False, compare=False)

    @property
    def method(self) -> str:
        """The method as it was spelled."""
        return str(self.directory.config["method"])

    @property
    def detailed(self) -> str:
        """The method with what tells runs of it apart: the seed, and the round of a checkpoint."""
        name = f"{self.method} seed {self.directory.config['settings']['seed']}"
        return name if self.round is None else f"{name} round {self.round}"

    def task(self, data_dir: str | Path | None) -> Task:
        """Return what was trained on, from here or from a data directory."""
        key = str(data_dir)
        if key in self._tasks:
            return self._tasks[key]
        # The one in memory has its data from where they were, so it serves only where no other place is named.
        task = task_of(with_data(self.directory, data_dir), remembered=data_dir is None)
        if self.keeps_task:
            self._tasks[key] = task
        return task

    def check(self) -> None:
        """Refuse a checkpoint that is not there."""
        kept = self.directory.checkpoints.rounds()
        if self.round not in {None, *kept}:
            there = ", ".join(map(str, sorted(kept))) or "none"
            raise CheckpointError(f"{self.path} is missing; there are checkpoints of the rounds {there}")


def open_saved(
    source: str | Path | SavedRun, keeps_task: bool = False, trust: bool = False, accept_changed_data: bool = False
) -> SavedRun:
    """Open the run that a path leads to, or whose checkpoint it leads to; one that is open stays as it is.

    With `trust` the code that it names may be imported, wherever it comes from.
    """
    if isinstance(source, SavedRun):
        return source
    path = Path(source)
    directory = open_run(home_of(path), trust, accept_changed_data)
    return SavedRun(path, directory, _round_of(path, directory), keeps_task)


def open_all(
    sources: Sequence[Path | SavedRun],
    keeps_tasks: bool = False,
    trust: bool = False,
    accept_changed_data: bool = False,
) -> list[SavedRun]:
    """Open several runs."""
    return [open_saved(source, keeps_tasks, trust, accept_changed_data) for source in sources]


def runs_named(paths: Sequence[Path]) -> list[Path]:
    """Return the runs and checkpoints that paths stand for; a comparison stands for all its runs."""
    runs = [run for path in paths for run in _runs_at(path)]
    if not runs:
        raise ConfigError(f"{paths[0]} holds no run yet")
    return runs


def _runs_at(path: Path) -> Sequence[Path]:
    return runs_in(path) if is_comparison(path) else [path]


def home_of(path: Path) -> Path:
    """Return the run directory of a run or of one of its checkpoints."""
    return path if _named_checkpoint(path) is None else path.parent.parent


def _round_of(path: Path, directory: RunDirectory) -> int | None:
    """Return which checkpoint of a run a path leads to, by its name, if to one: `checkpoints/best` is the best."""
    match = _named_checkpoint(path)
    if match is None:
        return None
    return best_round(directory) if match[1] is None else int(match[1])


def _named_checkpoint(path: Path) -> re.Match[str] | None:
    return CHECKPOINT.fullmatch(f"{path.parent.name}/{path.name}")


def labels(runs: Sequence[SavedRun]) -> list[str]:
    """Return a name for each run: the method, with the seed, the round or a number where methods are equal."""
    names = told_apart([run.method for run in runs], [run.detailed for run in runs])
    return told_apart(names, numbered(names))


def told_apart(names: Sequence[str], longer: Sequence[str]) -> list[str]:
    """Return the names, with the longer one for each that is not the only one of its kind."""
    counts = Counter(names)
    return [name if counts[name] == 1 else other for name, other in zip(names, longer, strict=True)]


def numbered(names: Sequence[str]) -> list[str]:
    """Return names with their places: `fedavg #1`."""
    return [f"{name} #{place}" for place, name in enumerate(names, start=1)]


def kept_result(
    directory: RunDirectory, measurement: Measurement, samples: int | None = None
) -> MeasurementResult | None:
    """Return a measurement of a run's final model over n training examples, or all; None where it was not taken."""
    latest = newest_round(directory.path, directory.checkpoints.rounds())
    wanted = _plain(measurement.to_dict())
    for key, result in KeptResults(directory.path).of_round(latest):
        is_same = key.get("measurement") == wanted and key.get("version", 1) == measurement.version
        if is_same and key.get("run") == directory.config["run"] and _is_over(samples, key):
            return MeasurementResult.from_dict(result)
    return None


def _is_over(samples: int | None, key: dict[str, Any]) -> bool:
    """Say whether the evaluated model was measured, over n training examples of the usual draw, or all."""
    sample = key.get("sample", {})
    if "space" in key:  # of all weights, and not of those that are trained
        return False
    if key.get("weights") != "evaluated" or sample.get("of") != "train" or sample.get("most") != samples:
        return False
    return samples is None or sample.get("seed") == 0


def _plain(content: dict[str, Any]) -> Any:
    """Return a configuration as a file gives it back."""
    return json.loads(json.dumps(content))
