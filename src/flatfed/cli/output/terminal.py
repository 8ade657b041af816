"""How wide the output may be, and tables and notes printed within it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

import click

NARROW, WIDE, UNBOUNDED = 80, 160, 10_000


def text_width() -> int:
    """Return the width of lines of text: the terminal's; elsewhere a fixed one, so that files are the same anywhere."""
    if not sys.stdout.isatty():
        return WIDE
    return max(shutil.get_terminal_size().columns, NARROW)


def table_width() -> int:
    """Return the width of tables: the terminal's; elsewhere nothing need fit."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return text_width()


def print_tables(tables: Iterable[Any], width: int) -> None:
    """Print tables of rich."""
    from rich.console import Console  # here, for help and JSON do without it

    console = Console(width=width, highlight=False)
    for table in tables:
        console.print(table)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes below a table, each as a paragraph."""
    for note in notes:
        click.echo(textwrap.fill(note, text_width(), subsequent_indent="  ", break_on_hyphens=False))
