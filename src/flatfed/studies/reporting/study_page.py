"""The report of a study as a page: its table, statistics and cells without a result, and a view for each setting."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.experiments.measuring.class_tables import class_table_of
from flatfed.reports.page.client_view import ClassTable
from flatfed.reports.page.gather import ViewSource
from flatfed.reports.page.page_tables import TableData, table_data
from flatfed.reports.page.write import PAGE, available, write_page
from flatfed.reports.results.result import OneRun, Result
from flatfed.reports.results.results import collect, read_run
from flatfed.reports.statistics.paired import PairedDifference
from flatfed.reports.tables.columns import PLAIN, primary
from flatfed.reports.tables.extras import Extras, Target
from flatfed.reports.tables.grid import NOTHING
from flatfed.reports.tables.pivot import DIVERGED, Pivot, decimals_for
from flatfed.runs.directory import is_run
from flatfed.runs.metrics import Metric
from flatfed.studies.reporting.study_pivot import pivots_of
from flatfed.studies.reporting.study_statistics import statistics_of
from flatfed.studies.reporting.study_targets import target_texts, target_value
from flatfed.studies.results import StudyTable
from flatfed.studies.run_study import RunningStudy
from flatfed.studies.study import spelled_point

ClassesOf = Callable[[OneRun], ClassTable | None]


def write_study_page(running: RunningStudy) -> list[Path]:
    """Write the page of a study into its folder; nothing where what it needs is missing."""
    if not available():
        return []
    part = study_part(running)
    file = running.folder.path / PAGE
    write_page(file, part["title"], study_views(running, class_table_of), [part])
    return [file]


def study_part(running: RunningStudy) -> dict[str, Any]:
    """Return what stands before the views: methods x settings, statistics, what was chosen, and what has no result."""
    table = running.table()
    statistics = statistics_of(table)
    return {
        "title": table.study.title or running.folder.path.name,
        "command": str(running.folder.record().get("command") or ""),
        "pivots": [_pivot_table(pivot) for pivot in pivots_of(table).values()],
        "warnings": statistics.warnings,
        "differences": _differences(table, statistics.compared, statistics.reference),
        "ranks": _ranks(statistics.ranking.mean_ranks if statistics.ranking else {}),
        "chosen": _chosen(table),
        "failed": _without_result(running),
    }


def _pivot_table(pivot: Pivot) -> TableData:
    rows = [[row, *(_text(pivot, row, column) for column in pivot.columns)] for row in pivot.rows]
    data = table_data([pivot.corner, *pivot.heads()], rows, caption=pivot.caption, notes=[pivot.note])
    for cells, row in zip(data["rows"], pivot.rows, strict=True):
        for cell, column in zip(cells[1:], pivot.columns, strict=True):
            cell["best"] = pivot.cell(row, column).is_best
    return data


def _text(pivot: Pivot, row: str, column: str) -> str:
    cell = pivot.cell(row, column)
    if cell.mean is None:
        return f"{DIVERGED} diverged" if cell.has_diverged else cell.remark or NOTHING
    return " ± ".join(filter(None, pivot.numbers(cell, column)))


def _differences(table: StudyTable, compared: Sequence[PairedDifference], reference: str) -> TableData | None:
    if not compared:
        return None
    heads = ["setting", "method", "pairs", "difference", "95 % interval", "p", "p (Holm)", "significant"]
    rows = [_difference(table, one) for one in compared]
    caption = f"Differences to {reference}: paired over seeds, method minus reference"
    return table_data(heads, rows, (0, 1, 4, 7), caption=caption)


def _difference(table: StudyTable, one: PairedDifference) -> list[str]:
    metric = table.metrics.get(one.setting)
    names = [one.setting or "all", one.method, str(len(one.differences))]
    if one.mean is None or metric is None:
        return [*names, *[NOTHING] * 4, one.remark or NOTHING]
    places = decimals_for([metric.scale * one.mean], metric.shown.unit == "%")
    interval = NOTHING
    if one.interval is not None:
        low, high = metric.scale * one.interval.low, metric.scale * one.interval.high
        interval = f"{low:+.{places}f} to {high:+.{places}f}"
    significant = "yes" if one.is_significant else one.remark or "no"
    return [*names, f"{metric.scale * one.mean:+.{places}f}", interval, _p(one.p), _p(one.p_holm), significant]


def _p(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2g}"


def _ranks(ranks: Mapping[str, float]) -> TableData | None:
    if not ranks:
        return None
    rows = [[method, f"{rank:.2f}"] for method, rank in sorted(ranks.items(), key=lambda item: item[1])]
    return table_data(["method", "mean rank"], rows, caption="Mean rank over settings; 1 is the best", best={1: False})


def _chosen(table: StudyTable) -> TableData | None:
    choices = [choice for choice in table.chosen.values() if choice.values]
    if not choices:
        return None
    rows = [[choice.variant, choice.setting or "all", spelled_point(choice.point)] for choice in choices]
    return table_data(["method", "setting", "chosen"], rows, (0, 1, 2), caption=table.study.select.sentence)


def _without_result(running: RunningStudy) -> TableData | None:
    """Return the cells that have no result, or a bad one, with the reason."""
    rows = []
    for cell in running.cells():
        standing = running.folder.standing(cell)
        if standing.state != "finished":
            reason = standing.reason.partition("\n")[0] or NOTHING
            rows.append([cell.variant, cell.setting or "all", str(cell.seed), standing.state, reason])
    if not rows:
        return None
    heads = ["method", "setting", "seed", "state", "reason"]
    return table_data(heads, rows, (0, 1, 3, 4), caption="Cells that are not finished")


def study_views(running: RunningStudy, classes_of: ClassesOf, extras: Extras = PLAIN) -> list[ViewSource]:
    """Return a view for each setting that has runs; its targets are the study's where no extras are asked for."""
    title = running.study.title or running.folder.path.name
    command = str(running.folder.record().get("command") or "")
    again = [
        ("The table, also while it runs:", f"flatfed study show {shlex.quote(str(running.folder.path))}"),
        ("This page again:", f"flatfed report {shlex.quote(str(running.folder.path))}"),
    ]
    if command:
        again.insert(0, ("Train what is missing, or go on where it stopped:", command))
    views = []
    table = running.table()
    for setting in running.study.settings:
        results = list(_results(running, setting))
        if results:
            name = f"{title}: {setting}" if setting else title
            classes = classes_of(results[0].runs[0])
            shown = _extras(table, setting, results) if extras == PLAIN else extras
            views.append(ViewSource(name, results, "", shown, classes, again))
    return views


def _extras(table: StudyTable, setting: str, results: Sequence[Result]) -> Extras:
    """Return the study's targets as its report has them; one that the metric cannot have is left out."""
    metric = table.metrics.get(setting)
    if metric != primary(results):
        # The page goes by the first metric of the runs, and the targets are of another.
        return Extras()
    targets = []
    for text in target_texts(table):
        target = Target(text, target_value(table, setting, text))
        if metric is not None and target.value is not None and _can_have(metric, target):
            targets.append(target)
    return Extras(targets=tuple(targets))


def _can_have(metric: Metric, target: Target) -> bool:
    try:
        Extras(targets=(target,)).check_metric(metric)
    except ConfigError:
        return False
    return True


def _results(running: RunningStudy, setting: str) -> Iterator[Result]:
    """Yield the methods of one setting under the names that the study gives them."""
    for variant in running.study.methods:
        cells = [cell for cell in running.cells() if (cell.setting, cell.variant) == (setting, variant)]
        paths = [running.folder.run_of(cell) for cell in cells if not cell.chooses]
        results = _readable([path for path in paths if is_run(path)])
        for result in results:
            # More than one where a variant meant something else before.
            name = variant if len(results) == 1 else f"{variant}: {result.method}"
            yield replace(result, method=name)


def _readable(paths: Sequence[Path]) -> list[Result]:
    """Return the results of runs; a run that cannot be read is among the cells without a result."""
    good = []
    for path in paths:
        # It is among the cells that are not finished.
        with suppress(FlatfedError):
            good.append(read_run(path))
    return collect(good)
