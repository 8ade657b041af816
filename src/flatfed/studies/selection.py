"""Choosing parameters: the best point of a grid, by runs whose numbers are not reported."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError, FlatfedError, nearest
from flatfed.core.task.task import TEST, VALIDATION
from flatfed.runs.directory import RunDirectory
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric, last_mean, metrics_of
from flatfed.studies.cells import Cell
from flatfed.studies.folder import StudyFolder
from flatfed.studies.study import Point, Study, spelled_point

Column = tuple[str, str]
"""A setting and a variant."""


@dataclass(frozen=True)
class Choice:
    """What was chosen for a variant in a setting, and what each point came to."""

    setting: str
    variant: str
    point: Point
    values: dict[str, float | None]
    """The mean over the seeds that choose, by point; None where one of them diverged or failed."""
    metric: str = ""
    """What was compared: a column of the histories."""

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {
            "setting": self.setting,
            "variant": self.variant,
            "chosen": dict(self.point),
            "metric": self.metric,
            "values": self.values,
        }


def choices(
    study: Study, folder: StudyFolder, choosing: Sequence[Cell], known: Collection[Column] = ()
) -> dict[Column, Choice]:
    """Return what is chosen by now and not known yet: for each variant and setting whose choosing runs have ended."""
    open_columns = [column for column in study.columns() if column not in known]
    if not open_columns:
        return {}
    by_column: dict[Column, list[Cell]] = {}
    for cell in choosing:
        by_column.setdefault((cell.setting, cell.variant), []).append(cell)
    made = {}
    for column in open_columns:
        cells = by_column.get(column, [])
        if all(folder.standing(cell).has_ended for cell in cells):
            made[column] = _choose(study, folder, column, cells)
    return made


def _choose(study: Study, folder: StudyFolder, column: Column, cells: list[Cell]) -> Choice:
    setting, variant = column
    points = study.points(variant)
    if len(points) == 1:
        return Choice(setting, variant, points[0], {})
    finished = {cell: finished_run(folder, cell) for cell in cells}
    measured = [directory for directory in finished.values() if directory is not None]
    if not measured:
        # All diverged or failed: what is reported will say so.
        return Choice(setting, variant, points[0], dict.fromkeys(map(spelled_point, points)))
    metric = deciding_metric(study, list(measured[0].recorded.rows), measured[0].config)
    values = {
        point: _mean([deciding_value(metric, finished[cell]) for cell in cells if cell.point == point])
        for point in points
    }
    # The first of the best: the order of the file decides between equals.
    best = max(points, key=lambda point: _rank(metric, values[point]))
    by_name = {spelled_point(point): value for point, value in values.items()}
    return Choice(setting, variant, best, by_name, metric.column)


def finished_run(folder: StudyFolder, cell: Cell) -> RunDirectory | None:
    """Return a run that finished; None where it did not, or cannot be read."""
    if folder.standing(cell).state != "finished":
        return None
    try:
        return RunDirectory.open(folder.run_of(cell))
    except FlatfedError:
        return None


def _rank(metric: Metric, value: float | None) -> float:
    if value is None:
        return -math.inf
    return value if metric.shown.higher_is_better else -value


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not known:
        return None
    return sum(known) / len(known)


def deciding_value(metric: Metric, directory: RunDirectory | None) -> float | None:
    """Return what a run that chooses came to; None where it did not finish."""
    if directory is None:
        return None
    settings = directory.config["settings"]
    # Not from the summary, which has not every metric.
    value = last_mean(metric, directory.rows, directory.ended_after, settings["evaluate_last"])
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def deciding_metric(study: Study, rows: Sequence[Row], config: Mapping[str, Any]) -> Metric:
    """Return the metric that decides: the task's first, or the one that is named, on the test set that decides."""
    test = VALIDATION if study.select.by == VALIDATION else TEST
    measured = [metric for metric in metrics_of(rows, config) if metric.test == test]
    named = [metric for metric in measured if metric.name == study.select.metric]
    if study.select.metric and not named:
        names = [metric.name for metric in measured]
        raise ConfigError(nearest(study.select.metric, names, "metric"), parameter="select.metric")
    return (named or measured)[0]
