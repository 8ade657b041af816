"""A table as rows of cells: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table: for people, and as it is for machines."""

    text: str
    value: str | float | int | None = None


EMPTY = Cell(NOTHING)


@dataclass(frozen=True)
class Sheet:
    """Heads and rows; the first `words` columns are words, the others numbers. A head may have several lines."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: int = 1

    def terminal(self) -> Table:
        """Return the table for a terminal."""
        from rich import box
        from rich.table import Table

        made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        for place, head in enumerate(self.heads):
            if place < self.words:
                made.add_column(head, no_wrap=True)
            else:
                made.add_column(head, justify="right", overflow="fold")
        for row in self.rows:
            made.add_row(*(cell.text for cell in row))
        return made

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rule = [":--" if place < self.words else "--:" for place in range(len(self.heads))]
        heads = [head.replace("\n", " ") for head in self.heads]
        lines = [heads, rule, *([cell.text for cell in row] for row in self.rows)]
        return "".join("| " + " | ".join(line) + " |\n" for line in lines)

    def csv(self) -> str:
        """Return the table as CSV, numbers as they are and nothing where there is none."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([head.replace("\n", " ") for head in self.heads])
        writer.writerows([cell.value for cell in row] for row in self.rows)
        return text.getvalue()
