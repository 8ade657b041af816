"""What commands print: the start-up summary, the report beside the runs, and tables as wide as the terminal."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.cli.loading import loading
from flatfed.cli.output.files import tell_report
from flatfed.cli.output.streams import console, echo

if TYPE_CHECKING:
    from flatfed.experiments.comparing.comparison import Comparison
    from flatfed.experiments.comparing.opened import OpenedRuns
    from flatfed.experiments.planning.plan import Plan
    from flatfed.experiments.running.run import Run
    from flatfed.reports.results.result import OneRun, Result
    from flatfed.reports.results.setting import Lines
    from flatfed.reports.tables.extras import Extras
    from flatfed.runs.directory import RunDirectory


NARROWEST, NARROW, WIDE, UNBOUNDED = 40, 80, 160, 10_000


def text_width() -> int:
    """Return the width of lines of text: the terminal's; elsewhere a fixed one, so that files are the same anywhere."""
    if not sys.stdout.isatty():
        return WIDE
    return max(shutil.get_terminal_size().columns, NARROWEST)


def table_width() -> int:
    """Return the width of tables: the terminal's; elsewhere nothing need fit."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return text_width()


def print_tables(tables: Iterable[Any], width: int) -> None:
    """Print tables of rich."""
    shown = console(width=width, highlight=False)
    for table in tables:
        shown.print(table)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes below a table, each as a paragraph."""
    for note in notes:
        echo(textwrap.fill(note, text_width(), subsequent_indent="  ", break_on_hyphens=False))


SUMMARY_WIDTH = 100
"""Columns of the start-up summary, at most."""


def run_text(config: dict[str, Any], out: Path) -> str:
    """Return what a run tells, from its record."""
    from flatfed.reports.results.setting import run_lines

    return _text(run_lines(config), out)


def resumed_config(plan: Plan, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a run that goes on, perhaps for more rounds; older ones lack the setting."""
    if "setting" in recorded:
        return recorded | plan.to_config()
    return recorded | _config(plan)


def comparison_text(comparison: Comparison, out: Path, opened: OpenedRuns) -> str:
    """Return what a comparison tells: what is common once, and a line per method, by the first seed."""
    from flatfed.reports.results.setting import comparison_lines

    return _text(comparison_lines(list(_configs(comparison, out, opened)), comparison.seeds), out)


def _configs(comparison: Comparison, out: Path, opened: OpenedRuns) -> Iterator[dict[str, Any]]:
    """Yield each method's configuration: as recorded, where its run has begun, which may need no data any more."""
    from flatfed.experiments.comparing.comparison import run_path

    plan: Plan | None = None
    for method in comparison.methods:
        recorded = _recorded(run_path(out, method.spelling, comparison.seeds[0]), opened)
        if recorded is not None:
            yield recorded
            continue
        try:
            if plan is None:
                plan = comparison.plan_of(method)  # once: the task is the same for all
            yield _config(replace(plan, algorithm=method.algorithm, average=method.average))
        except Exception:  # this method will be shown as failed; the others need their summary
            yield comparison.config_of(method, comparison.seeds[0])


def _recorded(path: Path, opened: OpenedRuns) -> dict[str, Any] | None:
    from flatfed.core.errors import FlatfedError

    try:
        return opened.at(path).config
    except FlatfedError:  # not begun, or not to be read: the comparison will say so
        return None


def _config(plan: Plan) -> dict[str, Any]:
    from flatfed.experiments.planning.setting import describe

    return plan.to_config() | {"setting": describe(plan)}


def _text(lines: Lines, out: Path) -> str:
    from flatfed.reports.results.setting import wrapped

    # The summary goes to standard error, which may be a terminal where standard output is none.
    columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else NARROW
    return "\n".join(wrapped([*lines, ("writes to", str(out))], min(columns, SUMMARY_WIDTH)))


def finish_run(result: Run, out: Path, as_json: bool) -> int:
    """Write the report of one run, print its table and return the exit code."""
    assert result.directory is not None
    config = result.directory.config
    about = config.get("about", {})
    with loading():  # the pictures need matplotlib
        from flatfed.reports.write import write_report

        results = read_results([result.directory])
        files = write_report(results, out, about.get("title", config["method"]), about.get("command", command_line()))
    print_results(results, as_json)
    echo(f"run directory: {out}", err=True)
    tell_report(files)
    return 0 if result.status == "finished" else 1


def read_results(runs: Sequence[Path | RunDirectory | OneRun]) -> list[Result]:
    """Read some runs; a remark on them goes to standard error."""
    from flatfed.reports.results.results import collect

    return collect(runs, partial(echo, err=True))


def print_results(
    results: list[Result], as_json: bool, extras: Extras | None = None, published: bool = False, wide: bool = False
) -> None:
    """Print the results of some runs, with what is shown on demand: extras, and published values beside them.

    A terminal shows the columns that it has room for, with `wide` all; what is no terminal gets all.
    """
    from flatfed.reports.tables.columns import PLAIN

    if as_json:
        _print_json(results, extras or PLAIN, published)
        return
    _print_tables(results, extras or PLAIN, wide or not sys.stdout.isatty())
    if published:
        _print_published(results)


def _print_json(results: list[Result], extras: Extras, published: bool) -> None:
    from flatfed.reports.write import document

    written = document(results, extras)
    if published:
        from flatfed.reports.tables import beside_published

        written["published"] = beside_published.as_json(results)
    echo(json.dumps(written, indent=1))


def _print_published(results: list[Result]) -> None:
    """Print the published values of the same settings below the table, or that there are none."""
    from flatfed.reports.tables import beside_published

    table = beside_published.terminal_table(results)
    if table is not None:
        print_tables([table], text_width())
    print_notes(beside_published.notes(results))


def _print_tables(results: list[Result], extras: Extras, wide: bool) -> None:
    from flatfed.outside.origins import outside_text
    from flatfed.reports.tables import table

    width = text_width()
    print_tables(table.terminal_tables(results, width, extras, wide), width)
    outside = outside_text([run.config for result in results for run in result.runs])
    print_notes([table.caption(results, extras), *table.notes(results, extras), *filter(None, [outside])])
    hidden = [] if wide else table.left_out(results, width, extras)
    if hidden:
        print_notes([f"no room for: {', '.join(hidden)}; `flatfed show ... --wide` shows all columns"])
    for result in results:
        for run in result.runs:
            _tell_reason(result.method, run)


def _tell_reason(method: str, run: OneRun) -> None:
    """Say why a run ended as it did, in a line."""
    reason = run.summary["reason"]
    if reason:
        echo(f"{method}, seed {run.seed}: {run.summary['status']}: {reason.splitlines()[0]}", err=True)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["flatfed", *sys.argv[1:]])
