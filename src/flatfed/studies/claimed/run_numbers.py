"""The numbers of a study's runs that claims are about: accuracies, costs, norms, and flatness of the models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.experiments.measuring.saved_runs import kept_result
from flatfed.published.claims.claim import TARGET_COSTS
from flatfed.published.claims.intervals import Values
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.metrics import Metric, asked_clients, mean_client_seconds, metrics_of, primary_of
from flatfed.runs.packed import newest_round, rounds_of
from flatfed.runs.results import KeptResults
from flatfed.studies.results import Entry, StudyTable
from flatfed.studies.run_study import RunningStudy

Row = dict[str, Any]

SHARES = ("accuracy", "miou")
"""Metrics of the task, in per cent."""

MEASURED = (
    *("lambda_max", "lambda_ratio", "lpf", "discrepancy", "incompatibility", "tracking_error", "perturbation_gap"),
    *("lambda_local", "lambda_global"),
)
"""What `flatfed flatness` keeps beside a run."""


class StudyValues:
    """A study's numbers, metric by metric."""

    def __init__(self, running: RunningStudy) -> None:
        self.running = running
        self.table: StudyTable = running.table()
        self._known: dict[str, Values] = {}

    def of(self, metric: str) -> Values:
        """Return the numbers of a metric by setting and variant, then by seed; empty where it was not measured."""
        if metric not in self._known:
            found = {
                (entry.setting, entry.variant): self._entry(metric, entry) for entry in self.table.entries.values()
            }
            self._known[metric] = {key: values for key, values in found.items() if values}
        return self._known[metric]

    def _entry(self, metric: str, entry: Entry) -> dict[int, float]:
        if metric in SHARES:
            return self._share(metric, entry)
        numbers = {}
        # A run that diverged has a history, so that it may have reached a target, and no other number.
        states = ("finished", "diverged") if metric in TARGET_COSTS else ("finished",)
        for seed, directory in self._runs(entry, states):
            number = self._number(metric, entry, directory)
            if number is not None:
                numbers[seed] = number
        return numbers

    def _share(self, name: str, entry: Entry) -> dict[int, float]:
        """Return the reported values; NaN for runs that diverged."""
        shown = self.table.metrics.get(entry.setting)
        if shown is not None and shown.name != name:
            return {}
        scale = 100.0 if shown is None else shown.scale
        values = {seed: scale * value for seed, value in entry.values.items()}
        diverged = {seed: math.nan for seed, state in entry.ended.items() if state == "diverged"}
        return values | diverged

    def _runs(self, entry: Entry, states: Sequence[str]) -> Iterator[tuple[int, RunDirectory]]:
        """Yield the runs of an entry that have ended in one of some ways."""
        for cell in self.running.cells():
            if cell.chooses or (cell.setting, cell.variant) != (entry.setting, entry.variant):
                continue
            path = self.running.folder.run_of(cell)
            if self.running.folder.standing(cell).state in states and is_run(path):
                yield cell.seed, RunDirectory.open(path)

    def _number(self, metric: str, entry: Entry, directory: RunDirectory) -> float | None:
        try:
            rows = list(directory.recorded.rows)
            if metric in TARGET_COSTS:
                return self._cost(metric, entry, directory, rows)
            if metric in MEASURED:
                return self._measured(metric, directory)
            if metric == "lambda_global_over_local":
                return _ratio(self._measured("lambda_global", directory), self._measured("lambda_local", directory))
        except FlatfedError:
            return None
        reader = OF_ROWS.get(metric)
        return None if reader is None or not rows else reader(rows)

    def _cost(self, metric: str, entry: Entry, directory: RunDirectory, rows: Sequence[Row]) -> float | None:
        """Return rounds or bytes until the target is reached; infinity where it never is."""
        target = self._target(entry.setting)
        if target is None:
            return None
        first = primary_of(metrics_of(rows, directory.config), directory.config)
        shown = self.table.metrics.get(entry.setting, first)
        reached = _reached(shown, rows, target)
        if reached is None:
            return math.inf
        if metric == "rounds_to_target":
            return float(reached)
        return float(sum(row["bytes_down"] + row["bytes_up"] for row in rows if row["round"] < reached))

    def _measured(self, name: str, directory: RunDirectory) -> float | None:
        """Return a number of the last model, as the study measures it; where it does not, as somebody else did."""
        report = self.running.study.report
        for measurement in report.measured():
            result = kept_result(directory, measurement, report.flatness_samples)
            if result is not None and name in result.numbers:
                return result.numbers[name]
        return _any_measured(name, directory)

    def _target(self, setting: str) -> float | None:
        """Return the first target of the study, or else the accuracy of its reference or of FedAvg."""
        study = self.running.study
        shown = self.table.metrics.get(setting)
        targets = study.report.targets
        # The word `reference` means what is taken anyway.
        if targets and not isinstance(targets, str) and shown is not None:
            return targets[0] / shown.scale
        for variant in (study.report.reference, "fedavg"):
            if variant in study.methods:
                return self.table.entry(setting, variant).mean
        return None


def _reached(metric: Metric, rows: Sequence[Row], target: float) -> int | None:
    """Return the round, counted from 1, in which a target is first reached."""
    for round, value in metric.values(rows):
        if metric.reaches(value, target):
            return round + 1
    return None


def _any_measured(name: str, directory: RunDirectory) -> float | None:
    """Return what was measured of the last model by hand, over training examples of the usual seed."""
    latest = newest_round(directory.path, directory.checkpoints.rounds())
    found = None
    for key, result in KeptResults(directory.path).of_round(latest):
        sample = key.get("sample", {})
        if "space" in key:  # of all weights, and not of those that are trained
            continue
        if key.get("weights") == "evaluated" and sample.get("of") == "train" and sample.get("seed") == 0:
            found = result["numbers"].get(name, found)
    return found


def _ratio(above: float | None, below: float | None) -> float | None:
    if above is None or not below:
        return None
    return above / below


def _per_client(rows: Sequence[Row], *names: str) -> float:
    total = sum(row[name] for row in rows for name in names)
    clients = sum(len(asked_clients(row)) * rounds_of(row) for row in rows)
    return float(total) / max(clients, 1)


def _bytes(rows: Sequence[Row]) -> float:
    return _per_client(rows, "bytes_down", "bytes_up")


def _backprops(rows: Sequence[Row]) -> float:
    return _per_client(rows, "backprops")


def _norm(rows: Sequence[Row]) -> float | None:
    norm: float | None = rows[-1].get("model_norm")
    return norm


def _interpolation(rows: Sequence[Row]) -> float | None:
    c: float | None = rows[-1].get("watch", {}).get("c")
    return c


OF_ROWS: dict[str, Callable[[Sequence[Row]], float | None]] = {
    "bytes_per_round": _bytes,
    "backprops": _backprops,
    "client_seconds": mean_client_seconds,
    "parameter_norm": _norm,
    "c": _interpolation,
}
"""What a run's history tells by itself."""
