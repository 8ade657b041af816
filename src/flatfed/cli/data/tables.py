"""Tables of `flatfed data`, and its warnings."""

from __future__ import annotations

import shutil
import sys

from flatfed.cli.output.streams import console, echo

NARROWEST = 40


def print_table(names: list[str], rows: list[list[str]], colours: dict[str, str]) -> None:
    """Print rows below the names of the columns; a cell whose text is in `colours` has that colour."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=any(names), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in names:
        # Folded, because an ellipsis would hide what tells rows apart.
        table.add_column(name, overflow="fold")
    for row in rows:
        # As texts, in which rich looks for no markup.
        table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
    console(width=_width(), highlight=False).print(table)


def _width() -> int:
    """Return the width of the terminal; what is no terminal is as wide as needed."""
    from flatfed.cli.output.results import WIDE

    if not sys.stdout.isatty():
        return WIDE
    return max(shutil.get_terminal_size().columns, NARROWEST)


def warn_of_broken_modules() -> None:
    """Warn of modules of data sets that cannot be imported; the other data sets can be used all the same."""
    from flatfed.data.catalogue import broken_modules

    for error in broken_modules().values():
        echo(f"Warning: {error}", err=True)
