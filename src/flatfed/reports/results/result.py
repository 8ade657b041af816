"""One run as reports see it, and a method with its runs over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flatfed.reports.tables.grid import Spread, known, spread_of
from flatfed.runs.environment import read_environment
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric, metrics_of, primary_of


@dataclass(frozen=True)
class OneRun:
    """A run's configuration, metrics and history."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["settings"]["seed"])

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of flatfed, torch and Python that it was made with."""
        environment = read_environment(self.path)
        packages = environment.get("packages", {})
        known = {
            "flatfed": packages.get("flatfed"),
            "torch": packages.get("torch"),
            "Python": environment.get("python"),
        }
        return {name: str(version) for name, version in known.items() if version}

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every number of its test sets."""
        return metrics_of(self.rows, self.config)


UNDER_WAY = ("running", "interrupted")
ACCURACIES = ("accuracy_final", "accuracy_last_mean", "accuracy_best")


@dataclass(frozen=True)
class Result:
    """One method over its seeds; `differs` are the options in which the results side by side differ, with its values.

    `method` is a label of its own among these results, `label_says_all` whether the labels say all that differs.
    """

    method: str
    runs: list[OneRun]
    differs: dict[str, Any] = field(default_factory=dict)
    label_says_all: bool = True

    @property
    def metrics(self) -> list[Metric]:
        """Every number of the runs' test sets, the primary one first."""
        return list(dict.fromkeys(metric for run in self.runs for metric in run.metrics))

    @property
    def primary(self) -> Metric:
        """The metric that tables and curves go by."""
        return primary_of(self.metrics, self.runs[0].config)

    @property
    def seeds(self) -> set[int]:
        """The seeds of the runs."""
        return {run.seed for run in self.runs}

    @property
    def good(self) -> list[OneRun]:
        """The runs whose metrics count: the finished ones, or while there is none, those still under way."""
        # A run that diverged never counts: its last value says nothing about the method's accuracy.
        return self._with_status("finished") or self._with_status(*UNDER_WAY)

    def _with_status(self, *statuses: str) -> list[OneRun]:
        return [run for run in self.runs if run.summary["status"] in statuses]

    def spread(self, name: str) -> Spread | None:
        """Return mean and sample standard deviation of a number of the summaries over the good runs."""
        return spread_of(known(run.summary.get(name) for run in self.good))

    def mean(self, name: str) -> float:
        """Return the mean of a cost over all runs."""
        # Of runs that diverged too, because they have cost as much.
        return statistics.fmean(run.summary[name] for run in self.runs)

    @property
    def status(self) -> str:
        """How the runs ended, in a few words: `finished`, or `1 of 2 diverged (round 17)`."""
        statuses = {run.summary["status"] for run in self.runs}
        if statuses == {"finished"}:
            return "finished"
        return ", ".join(map(self._status_text, sorted(statuses)))

    def _status_text(self, status: str) -> str:
        """Return how many runs ended so, where there are several, and after how many rounds."""
        runs = self._with_status(status)
        text = f"{status}{_rounds_text(status, runs)}"
        if len(self.runs) == 1:
            return text
        return f"{len(runs)} of {len(self.runs)} {text}"


def _rounds_text(status: str, runs: Sequence[OneRun]) -> str:
    """Say after how many rounds runs ended, unless they are finished."""
    if status == "finished":
        return ""
    rounds = ", ".join(str(run.summary["rounds"]) for run in runs)
    return f" (round {rounds})"


def all_runs(results: Sequence[Result]) -> list[OneRun]:
    """Return the runs of all results."""
    return [run for result in results for run in result.runs]
