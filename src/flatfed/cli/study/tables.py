"""The table of a study, and how its cells stand, for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from flatfed.cli.data.tables import print_table
from flatfed.cli.output.progress import clock
from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.studies.results import Entry, StudyTable
    from flatfed.studies.run_study import RunningStudy

DIVERGED = "✗"


def print_study(table: StudyTable) -> None:
    """Print variants x settings: mean ± standard deviation over the seeds, the best with a star."""
    from flatfed.studies.study import spelled_point

    study = table.study
    names = ["method", *(name or "all" for name in study.settings)]
    rows = []
    for variant in study.methods:
        cells = [_cell(table, table.entry(setting, variant)) for setting in study.settings]
        rows.append([variant, *cells])
    if study.title:
        echo(study.title)
    print_table(names, rows, {})
    echo(f"{_what(table)}, mean ± standard deviation over {len(study.seeds)} seeds; * best of its column")
    if any(map(study.is_searched, study.methods)):
        echo(study.select.sentence)
    for choice in table.chosen.values():
        if choice.values:
            where = ", ".join(filter(None, (choice.variant, choice.setting)))
            echo(f"chosen for {where}: {spelled_point(choice.point)}")


def _what(table: StudyTable) -> str:
    """Return what the numbers are."""
    words = {"last": "mean over the last rounds", "final": "last round", "best": "best round (optimistic)"}
    titles = sorted({metric.title for metric in table.metrics.values()}) or ["accuracy"]
    when = words.get(table.study.report.accuracy, f"after {table.study.report.accuracy}")
    return f"{' and '.join(titles)}, {when}"


def _cell(table: StudyTable, entry: Entry) -> str:
    metric = table.metrics.get(entry.setting)
    if entry.mean is None or metric is None:
        return _without(entry)
    text = f"{metric.scale * entry.mean:.2f}"
    if entry.spread is not None:
        text += f" ± {metric.scale * entry.spread:.2f}"
    return f"{text} *" if entry.best else text


def _without(entry: Entry) -> str:
    """Return what stands for a mean that there is not."""
    if entry.has_diverged:
        return DIVERGED
    states = Counter(state.partition(":")[0] for state in entry.ended.values())
    if "failed" in states:
        return "failed"
    return f"{len(entry.values)} of {len(entry.values) + len(entry.ended)} seeds"


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
