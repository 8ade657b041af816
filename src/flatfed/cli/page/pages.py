"""The report as one page: of what paths stand for, and beside what a command has made."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.comparing.comparison import Comparison
    from flatfed.reports.page.gather import ViewSource
    from flatfed.reports.results.result import Result
    from flatfed.reports.tables.extras import Extras
    from flatfed.studies.run_study import RunningStudy


def comparison_page(results: Sequence[Result], comparison: Comparison, out: Path) -> list[Path]:
    """Write the page of a comparison beside its runs; nothing where what it needs is missing."""
    from flatfed.reports.page.write import PAGE, available, write_page

    if not available() or not results:
        return []
    view = _view(results, comparison.title, comparison.command, [out], comparison.extras)
    write_page(out / PAGE, comparison.title, [view])
    return [out / PAGE]


def write_page_of(paths: Sequence[Path], file: Path, extras: Extras) -> None:
    """Write the page of runs, comparisons and studies; runs that are not of a study share one view."""
    from flatfed.experiments.measuring.class_tables import class_table_of
    from flatfed.reports.page.write import require_page, write_page
    from flatfed.studies.folder import FILE
    from flatfed.studies.reporting.study_page import study_part, study_views

    require_page()
    studies = [path for path in paths if (path / FILE).is_file()]
    others = [path for path in paths if path not in studies]
    views = _views_of_runs(others, extras) if others else []
    titles_of_runs = [view.name for view in views]
    parts = []
    for path in studies:
        running = _running(path)
        parts.append(study_part(running))
        views += study_views(running, class_table_of, extras)
    titles = [*(part["title"] for part in parts), *titles_of_runs]
    write_page(file, " and ".join(titles), views, parts)


def _running(path: Path) -> RunningStudy:
    from flatfed.studies.entering import recorded_study
    from flatfed.studies.folder import StudyFolder
    from flatfed.studies.run_study import RunningStudy

    return RunningStudy(recorded_study(StudyFolder(path)), path)


def _views_of_runs(paths: Sequence[Path], extras: Extras) -> list[ViewSource]:
    """Return the view of runs and comparisons, all in one table."""
    from flatfed.cli.output.results import read_results
    from flatfed.experiments.comparing.comparison import planned_runs
    from flatfed.reports.tables.columns import PLAIN
    from flatfed.runs.directory import is_run

    every = chain.from_iterable(map(planned_runs, paths))
    # Resolved, because a comparison and one of its runs may both be named.
    runs = {run.resolve(): run for run in every if is_run(run)}
    if not runs:
        raise ConfigError(f"{paths[0]} holds no run yet")
    results = read_results(list(runs.values()))
    title, command, own = _about(paths, results)
    # What is asked for now goes first, and then what the comparison was asked for.
    return [_view(results, title, command, paths, own if extras == PLAIN else extras)]


def _about(paths: Sequence[Path], results: Sequence[Result]) -> tuple[str, str, Extras]:
    """Return title, command and what the table shows besides: of one comparison or run, as it recorded them."""
    from flatfed.experiments.comparing.comparison import load_comparison, names_outside_parts
    from flatfed.reports.tables.extras import Extras
    from flatfed.runs.directory import is_comparison

    if len(paths) == 1 and is_comparison(paths[0]):
        if names_outside_parts(paths[0]):
            # To look at runs imports no code of theirs, and without it nobody can say more of what was trained.
            return ", ".join(result.method for result in results), "", Extras()
        comparison = load_comparison(paths[0])
        return comparison.title, comparison.command, comparison.extras
    runs = [run for result in results for run in result.runs]
    if len(runs) == 1:
        about = runs[0].config.get("about") or {}
        return about.get("title") or runs[0].config["method"], about.get("command") or "", Extras()
    return ", ".join(result.method for result in results), "", Extras()


def _view(results: Sequence[Result], title: str, command: str, paths: Sequence[Path], extras: Extras) -> ViewSource:
    from flatfed.experiments.measuring.class_tables import class_table_of
    from flatfed.reports.page.gather import ViewSource

    named = shlex.join(map(str, paths))
    again = [("The same again:", command)] if command else []
    again += [("Go on where it stopped:", f"flatfed resume {shlex.quote(str(path))}") for path in paths]
    again += [("The table:", f"flatfed show {named}"), ("This page:", f"flatfed report {named}")]
    classes = class_table_of(results[0].runs[0])
    return ViewSource(title, results, command, extras, classes, again)
