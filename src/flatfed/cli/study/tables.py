"""The table of a study, and how its cells stand, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flatfed.cli.data.tables import print_table
from flatfed.cli.output.progress import clock
from flatfed.cli.output.results import print_notes
from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.reports.tables.pivot import Pivot
    from flatfed.studies.results import StudyTable
    from flatfed.studies.run_study import RunningStudy

DIVERGED = "✗"
BEST, SECOND = "*", "†"
"""Marks in the place of bold and underlined, which a plain terminal has not."""


def print_study(table: StudyTable) -> None:
    """Print variants x settings: mean ± standard deviation over the seeds, with marks for the best two."""
    from flatfed.studies.reporting.study_pivot import pivot_of
    from flatfed.studies.study import spelled_point

    study = table.study
    if study.title:
        echo(study.title)
    for own in (table, *(further for further in table.further if further.metrics)):
        _print_pivot(pivot_of(own), f"{_what(own)}{_over(len(study.seeds))}")
    if any(map(study.is_searched, study.methods)):
        echo(study.select.sentence)
    for choice in table.chosen.values():
        if choice.values:
            where = ", ".join(filter(None, (choice.variant, choice.setting)))
            echo(f"chosen for {where}: {spelled_point(choice.point)}")
    _print_targets(table)
    _print_flatness(table)


def _over(seeds: int) -> str:
    return f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else ""


def _print_pivot(pivot: Pivot, note: str) -> None:
    """Print a table, and what its numbers and marks are."""
    rows = [[row, *(_cell(pivot, row, column) for column in pivot.columns)] for row in pivot.rows]
    print_table([pivot.corner, *pivot.heads()], rows, {})
    cells = [pivot.cell(row, column) for row in pivot.rows for column in pivot.columns]
    marks = {
        f"{BEST} best of its column": any(cell.is_best for cell in cells),
        f"{SECOND} second best": any(cell.is_second for cell in cells),
        f"{DIVERGED} a seed diverged": any(cell.has_diverged for cell in cells),
    }
    print_notes(["; ".join([note, *(mark for mark, is_used in marks.items() if is_used)])])


def _what(table: StudyTable) -> str:
    """Return what the numbers are."""
    words = {"last": "mean over the last rounds", "final": "last round", "best": "best round (optimistic)"}
    titles = sorted({metric.title for metric in table.metrics.values()}) or ["accuracy"]
    when = words.get(table.study.report.accuracy, f"after {table.study.report.accuracy}")
    return f"{' and '.join(titles)}, {when}"


def _cell(pivot: Pivot, row: str, column: str) -> str:
    cell = pivot.cell(row, column)
    if cell.mean is None:
        return DIVERGED if cell.has_diverged else cell.remark
    mean, deviation = pivot.numbers(cell, column)
    text = f"{mean} ± {deviation}" if deviation else mean
    if cell.is_best:
        return f"{text} {BEST}"
    return f"{text} {SECOND}" if cell.is_second else text


def _print_targets(table: StudyTable) -> None:
    """Print the costs to reach each target, where the study has some."""
    from flatfed.studies.reporting.study_runs import StudyResults
    from flatfed.studies.reporting.study_targets import (
        HOW,
        by_target,
        heads_of,
        reference_of,
        rows_of,
        target_lines,
        title_of,
    )

    if not table.study.report.targets:
        return
    lines = target_lines(table, StudyResults(table))
    for own in by_target(lines).values():
        echo(f"\n{title_of(own, reference_of(table))}")
        print_table(heads_of(own), rows_of(own), {})
    if lines:
        print_notes([HOW])


def _print_flatness(table: StudyTable) -> None:
    """Print a table for each number that was measured of the final models."""
    from flatfed.studies.reporting.study_flatness import flatness_blocks, flatness_pivot

    for block in flatness_blocks(table):
        pivot = flatness_pivot(table, block)
        echo("")
        _print_pivot(pivot, pivot.note.removesuffix("."))


def print_standing(running: RunningStudy) -> bool:
    """Tell on standard error what runs and what has failed; say whether something has."""
    cells = running.cells()
    for cell, lease in running.held():
        progress = lease.progress
        left = f", {clock(progress.seconds_left)} left" if progress.seconds_left is not None else ""
        where = lease.machine.partition("/")[0]
        echo(f"running: {cell.name} on {where}, round {progress.round}/{progress.rounds}{left}", err=True)
    failed = [cell for cell in cells if running.folder.standing(cell).state == "failed"]
    for cell in failed:
        echo(f"failed: {cell.name}: {running.folder.standing(cell).reason}", err=True)
    return bool(failed)
