"""What came of a study: a table of variants x settings over seeds, ready for every form of report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.core.task.task import TEST
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.metrics import Metric, last_mean, metrics_of, primary_of
from flatfed.studies.cells import Cell
from flatfed.studies.folder import StudyFolder
from flatfed.studies.parts import Reporting
from flatfed.studies.selection import Choice
from flatfed.studies.study import Study

VALUES = {"last": "_last_mean", "final": "_final", "best": "_best"}


@dataclass
class Entry:
    """One variant in one setting."""

    setting: str
    variant: str
    values: dict[int, float] = field(default_factory=dict)
    """By seed, in the metric's own scale."""
    ended: dict[int, str] = field(default_factory=dict)
    """How the runs of seeds without a value ended: `diverged`, `failed`, `waiting`."""
    best: bool = False
    second: bool = False

    @property
    def mean(self) -> float | None:
        """The mean over the seeds; None where one of them has no value."""
        if not self.values or self.ended:
            return None
        return math.fsum(self.values.values()) / len(self.values)

    @property
    def spread(self) -> float | None:
        """The standard deviation over the seeds, of a sample; None for fewer than two."""
        if self.mean is None or len(self.values) < 2:
            return None
        return statistics.stdev(self.values.values())

    @property
    def has_diverged(self) -> bool:
        """Whether a seed diverged."""
        return "diverged" in self.ended.values()


@dataclass
class StudyTable:
    """Variants x settings."""

    study: Study
    entries: dict[tuple[str, str], Entry]
    metrics: dict[str, Metric]
    """The metric that is reported of each setting."""
    chosen: Mapping[tuple[str, str], Choice] = field(default_factory=dict)
    """What was chosen by now."""
    runs: Mapping[tuple[str, str], Mapping[int, Path]] = field(default_factory=dict)
    """The directories of runs that finished or diverged, by setting and variant, then by seed."""
    further: Sequence[StudyTable] = ()
    """Tables of the other metrics that are reported, in the settings that have them."""

    def entry(self, setting: str, variant: str) -> Entry:
        """Return one entry; an empty one where the setting does not have the variant."""
        return self.entries.get((setting, variant)) or Entry(setting, variant)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each variant in each setting, as plain data."""
        rows = []
        for entry in self.entries.values():
            metric = self.metrics.get(entry.setting)
            rows.append(
                {
                    "setting": entry.setting,
                    "method": entry.variant,
                    "metric": metric and metric.column,
                    "accuracy": self.study.report.accuracy,
                    "mean": entry.mean,
                    "std": entry.spread,
                    "seeds": {str(seed): value for seed, value in entry.values.items()},
                    "without": {str(seed): state for seed, state in entry.ended.items()},
                    "best": entry.best,
                    "second": entry.second,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        chosen = [choice.to_dict() for choice in self.chosen.values() if choice.values]
        further = [row for table in self.further for row in table.rows]
        return {"title": self.study.title, "rows": self.rows, "chosen": chosen, "further": further}


def table_of(
    study: Study, folder: StudyFolder, cells: list[Cell], chosen: Mapping[tuple[str, str], Choice]
) -> StudyTable:
    """Read the runs that are reported, as far as they are: a table for each metric, the first of which has the rest."""
    names = study.report.metrics or ("",)
    main, *others = [_table_of_metric(study, folder, cells, chosen, name) for name in names]
    main.further = [_of_settings_with_metric(table) for table in others]
    return main


def _of_settings_with_metric(table: StudyTable) -> StudyTable:
    """Return a table without the settings whose runs have no such metric."""
    entries = {key: entry for key, entry in table.entries.items() if key[0] in table.metrics}
    return replace(table, entries=entries)


def _table_of_metric(
    study: Study, folder: StudyFolder, cells: list[Cell], chosen: Mapping[tuple[str, str], Choice], name: str
) -> StudyTable:
    entries = {(setting, variant): Entry(setting, variant) for setting, variant in study.columns()}
    metrics: dict[str, Metric] = {}
    runs: dict[tuple[str, str], dict[int, Path]] = {}
    reported = {(cell.setting, cell.variant, cell.seed): cell for cell in cells if not cell.chooses}
    for (setting, variant), entry in entries.items():
        for seed in study.seeds:
            cell = reported.get((setting, variant, seed))
            if cell is None:
                entry.ended[seed] = "waiting"
                continue
            _read(study.report, name, folder, cell, entry, metrics)
            if folder.standing(cell).state in ("finished", "diverged") and is_run(folder.run_of(cell)):
                runs.setdefault((setting, variant), {})[seed] = folder.run_of(cell)
    _rank(study, entries, metrics)
    return StudyTable(study, entries, metrics, chosen, runs)


def _read(
    report: Reporting, name: str, folder: StudyFolder, cell: Cell, entry: Entry, metrics: dict[str, Metric]
) -> None:
    """Read a metric of one run into its entry."""
    standing = folder.standing(cell)
    path = folder.run_of(cell)
    if standing.state != "finished" or not is_run(path):
        entry.ended[cell.seed] = standing.state
        return
    try:
        directory = RunDirectory.open(path)
        rows = list(directory.recorded.rows)
        metric = _named_metric(name, rows, directory.config)
        if metric is None:
            entry.ended[cell.seed] = "not measured"
            return
        value = _value(report, directory, rows, metric)
    except FlatfedError as error:
        entry.ended[cell.seed] = f"failed: {error}"
        return
    metrics.setdefault(cell.setting, metric)
    if value is None:
        entry.ended[cell.seed] = "not evaluated"
    else:
        entry.values[cell.seed] = value


def _named_metric(name: str, rows: list[dict[str, Any]], config: Mapping[str, Any]) -> Metric | None:
    """Return the metric that is reported: the one that is named, by its column or as people say it, or the first."""
    metrics = metrics_of(rows, config)
    if not name:
        return primary_of(metrics, config)
    by_column = {metric.column: metric for metric in metrics}
    return by_column.get(name, by_column.get(f"{TEST}_{name}"))


def _value(report: Reporting, directory: RunDirectory, rows: list[dict[str, Any]], metric: Metric) -> float | None:
    if report.round is not None:
        return dict(metric.values(rows)).get(report.round - 1)
    if not report.metrics:
        value = directory.summary().get(f"{metric.stem}{VALUES[report.accuracy]}")
    else:
        # Not from the summary, which has not every metric.
        value = _of_history(report, directory, rows, metric)
    return None if value is None else float(value)


def _of_history(report: Reporting, directory: RunDirectory, rows: list[dict[str, Any]], metric: Metric) -> float | None:
    values = [value for _, value in metric.values(rows)]
    if report.accuracy == "last":
        settings = directory.config["settings"]
        return last_mean(metric, rows, directory.ended_after, settings["evaluate_last"])
    if report.accuracy == "best":
        return metric.best(values)
    return values[-1] if values else None


def _rank(study: Study, entries: dict[tuple[str, str], Entry], metrics: dict[str, Metric]) -> None:
    """Mark the best and the second best of each setting; what is equal to them is marked too."""
    for setting in study.settings:
        metric = metrics.get(setting)
        if metric is None or metric.shown.higher_is_better is None:
            continue
        column = [entry for (of, _), entry in entries.items() if of == setting and entry.mean is not None]
        values = sorted({_mean(entry) for entry in column}, reverse=metric.shown.higher_is_better)
        for entry in column:
            entry.best = _mean(entry) == values[0]
            entry.second = len(values) > 1 and _mean(entry) == values[1]


def _mean(entry: Entry) -> float:
    assert entry.mean is not None
    return entry.mean
