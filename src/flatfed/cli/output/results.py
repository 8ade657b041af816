"""What commands leave at the end: the report beside the runs, and the table or JSON on standard output."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.output.terminal import print_notes, print_tables, text_width

if TYPE_CHECKING:
    from flatfed.experiments.running.run import Run
    from flatfed.reports.results.one_run import OneRun
    from flatfed.reports.results.result import Result
    from flatfed.reports.tables.extras import Extras
    from flatfed.runs.directory import RunDirectory


def finish_run(result: Run, out: Path, as_json: bool) -> int:
    """Write the report of one run, print its table and return the exit code."""
    from flatfed.reports.write import write_report

    assert result.directory is not None
    config = result.directory.config
    about = config.get("about", {})
    results = read_results([result.directory])
    write_report(results, out, about.get("title", config["method"]), about.get("command", command_line()))
    print_results(results, as_json)
    click.echo(f"run directory: {out}", err=True)
    return 0 if result.status == "finished" else 1


def read_results(runs: Sequence[Path | RunDirectory]) -> list[Result]:
    """Read some runs; a remark on them goes to standard error."""
    from flatfed.reports.results.results import collect

    return collect(runs, partial(click.echo, err=True))


def print_results(results: list[Result], as_json: bool, extras: Extras | None = None) -> None:
    """Print the results of some runs, with what is shown on demand."""
    from flatfed.reports.tables.columns import PLAIN

    if as_json:
        _print_json(results, extras or PLAIN)
    else:
        _print_tables(results, extras or PLAIN)


def _print_json(results: list[Result], extras: Extras) -> None:
    from flatfed.reports.write import document

    click.echo(json.dumps(document(results, extras), indent=1))


def _print_tables(results: list[Result], extras: Extras) -> None:
    from flatfed.reports.tables import table

    width = text_width()
    print_tables(table.terminal_tables(results, width, extras), width)
    print_notes(table.notes(results, extras))
    for result in results:
        for run in result.runs:
            _tell_reason(result.method, run)


def _tell_reason(method: str, run: OneRun) -> None:
    """Say why a run ended as it did, in a line."""
    reason = run.summary["reason"]
    if reason:
        click.echo(f"{method}, seed {run.seed}: {run.summary['status']}: {reason.splitlines()[0]}", err=True)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["flatfed", *sys.argv[1:]])
