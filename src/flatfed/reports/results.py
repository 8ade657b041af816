"""Results of methods over seeds, collected from run directories."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import Row

ACCURACIES = ("accuracy_final", "accuracy_last_mean", "accuracy_best")


@dataclass(frozen=True)
class OneRun:
    """A run's configuration, figures and history."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["settings"]["seed"])


@dataclass(frozen=True)
class Result:
    """One method over its seeds."""

    method: str
    runs: list[OneRun]

    @property
    def good(self) -> list[OneRun]:
        """The runs whose figures count: the finished ones, or while there is none, those still under way."""
        finished = [run for run in self.runs if run.summary["status"] == "finished"]
        return finished or [run for run in self.runs if run.summary["status"] in ("running", "interrupted")]

    def spread(self, name: str) -> tuple[float, float | None] | None:
        """Return mean and sample standard deviation of a figure over the good runs."""
        values = [run.summary[name] for run in self.good if run.summary[name] is not None]
        if not values:
            return None
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None

    def mean(self, name: str) -> float:
        """Return the mean of a cost over all runs."""
        return statistics.fmean(run.summary[name] for run in self.runs)

    @property
    def status(self) -> str:
        """How the runs ended, in a few words: `finished`, or `1 of 2 diverged (round 17)`."""
        counts = Counter(run.summary["status"] for run in self.runs)
        if len(counts) == 1 and len(self.runs) == counts["finished"]:
            return "finished"
        parts = []
        for status, count in sorted(counts.items()):
            rounds = ", ".join(str(run.summary["rounds"]) for run in self.runs if run.summary["status"] == status)
            at = f" (round {rounds})" if status != "finished" else ""
            parts.append((f"{count} of {len(self.runs)} " if len(self.runs) > 1 else "") + status + at)
        return ", ".join(parts)


def collect(paths: Sequence[Path]) -> list[Result]:
    """Read runs and group them by method, in the order in which methods first appear."""
    directories = [RunDirectory.open(path) for path in paths]
    groups: dict[str, list[OneRun]] = {}
    for directory, label in zip(directories, _labels(directories), strict=True):
        run = OneRun(directory.path, directory.config, directory.summary(), directory.history().rows)
        groups.setdefault(label, []).append(run)
    return [Result(label, runs) for label, runs in groups.items()]


def _labels(directories: Sequence[RunDirectory]) -> list[str]:
    """Return a label per run: its method, and what differs from the first run of that method besides the seed."""
    first: dict[str, dict[str, Any]] = {}
    labels = []
    for directory in directories:
        method, setting = directory.config["method"], _flat(_without_seed(directory.config))
        reference = first.setdefault(method, setting)
        names = [n for n in reference.keys() | setting.keys() if reference.get(n) != setting.get(n)]
        differs = ", ".join(f"{name.rpartition('.')[2]}={setting.get(name)}" for name in sorted(names))
        labels.append(f"{method} ({differs})" if differs else method)
    return labels


def _without_seed(config: dict[str, Any]) -> dict[str, Any]:
    settings = {k: v for k, v in config["settings"].items() if k != "seed"}
    identity = (
        "kind",
        "name",
        "dataset",
        "clients",
        "partition",
        "model",
        "augment",
        "local_parts",
        "data_options",
        "model_options",
    )
    task = {k: v for k, v in config["task"].items() if k in identity}
    return {k: config[k] for k in ("algorithm", "average", "sampler")} | {"settings": settings, "task": task}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one, with dotted names."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, entry in value.items() for k, v in _flat(entry, f"{name}.{key}" if name else key).items()}
