"""What commands leave at the end: the report beside the runs, and the table or JSON on standard output."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flatfed.experiments.running.run import Run
    from flatfed.reports.tables.extras import Extras

WIDE = 160


def finish_run(result: Run, out: Path, as_json: bool) -> int:
    """Write the report of one run, print its table and return the exit code."""
    from flatfed.reports.results.results import collect
    from flatfed.reports.write import write_report
    from flatfed.runs.directory import RunDirectory

    config = RunDirectory.open(out).config
    about = config.get("about", {})
    write_report(collect([out]), out, about.get("title", config["method"]), about.get("command", command_line()))
    print_results([out], as_json)
    click.echo(f"run directory: {out}", err=True)
    return 0 if result.status == "finished" else 1


def print_results(paths: Sequence[Path], as_json: bool, extras: Extras | None = None) -> None:
    """Print the results of some runs, with what is shown on demand."""
    from flatfed.reports.results.results import collect
    from flatfed.reports.tables import table
    from flatfed.reports.tables.columns import PLAIN
    from flatfed.reports.write import document

    results, extras = collect(paths, lambda text: click.echo(text, err=True)), extras or PLAIN
    if as_json:
        click.echo(json.dumps(document(results, extras), indent=1))
        return
    from rich.console import Console

    # Off a terminal nothing may be cut off to fit.
    width = max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE
    console = Console(width=width, highlight=False)
    for part in table.terminal_tables(results, width, extras):
        console.print(part)
    for note in table.notes(results, extras):
        click.echo(textwrap.fill(note, width, subsequent_indent="  ", break_on_hyphens=False))
    for result in results:
        for run in result.runs:
            if run.summary["reason"]:
                reason = run.summary["reason"].splitlines()[0]
                click.echo(f"{result.method}, seed {run.seed}: {run.summary['status']}: {reason}", err=True)


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["flatfed", *sys.argv[1:]])
