"""What commands print at the end: the table, or JSON."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

WIDE = 160


def print_results(paths: Sequence[Path], as_json: bool) -> None:
    """Print the results of some runs."""
    from flatfed.reports.results import collect
    from flatfed.reports.table import aggregates, records, terminal_table

    results = collect(paths)
    if as_json:
        click.echo(json.dumps({"methods": aggregates(results), "runs": records(results)}, indent=1))
        return
    from rich.console import Console

    # Off a terminal nothing may be cut off to fit.
    width = max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE
    Console(width=width, highlight=False).print(terminal_table(results))


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["flatfed", *sys.argv[1:]])
