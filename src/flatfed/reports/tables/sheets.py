"""A table as rows of cells: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from flatfed.reports.tables.grid import NOTHING, fits, markdown_table, one_line, rule

if TYPE_CHECKING:
    from rich.table import Table

Item = TypeVar("Item")
Part = TypeVar("Part")


@dataclass(frozen=True)
class SheetCell:
    """What stands in one place of a table: for people, and as it is for machines."""

    text: str
    value: str | float | int | None = None


EMPTY = SheetCell(NOTHING)


@dataclass(frozen=True)
class Sheet:
    """Heads and rows; the first `words` columns are words, the others numbers. A head may have several lines."""

    heads: Sequence[str]
    rows: Sequence[Sequence[SheetCell]]
    words: int = 1

    def terminal(self) -> Table:
        """Return the table for a terminal."""
        made = empty_table()
        for head in self.heads[: self.words]:
            made.add_column(head, no_wrap=True)
        for head in self.heads[self.words :]:
            made.add_column(head, justify="right", overflow="fold")
        for row in self.rows:
            made.add_row(*_texts(row))
        return made

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rules = [rule(place < self.words) for place in range(len(self.heads))]
        rows = [_texts(row) for row in self.rows]
        return markdown_table(self.heads, rules, rows) + "\n"

    def csv(self) -> str:
        """Return the table as CSV, numbers as they are and nothing where there is none."""
        text = io.StringIO()
        # By default the module ends lines with CR LF.
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(one_line(self.heads))
        writer.writerows(_values(row) for row in self.rows)
        return text.getvalue()


def _texts(row: Sequence[SheetCell]) -> list[str]:
    return [cell.text for cell in row]


def _values(row: Sequence[SheetCell]) -> list[str | float | int | None]:
    return [cell.value for cell in row]


def empty_table() -> Table:
    """Return a table for the terminal in the house's look, without columns."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, padding=(0, 1))


def in_parts(
    items: Sequence[Item], make: Callable[[Sequence[Item]], Part], shown: Callable[[Part], Table], width: int
) -> list[Part]:
    """Return what `make` makes of all items, or of halves of them, and so on, until each part is narrow enough.

    `shown` returns a part as the terminal shows it.
    """
    whole = make(items)
    # A single item cannot be divided: the terminal folds its head.
    if len(items) == 1 or fits(shown(whole), width):
        return [whole]
    half = (len(items) + 1) // 2
    return [*in_parts(items[:half], make, shown, width), *in_parts(items[half:], make, shown, width)]


def csv_text(columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> str:
    """Return records as CSV with these columns; a record that lacks one has an empty field there."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def columns_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of all fields, in the order in which they first appear."""
    return list(dict.fromkeys(name for record in records for name in record))
