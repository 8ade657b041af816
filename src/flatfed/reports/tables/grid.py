"""A grid of texts: columns with heads, for the terminal in as many tables as it is wide, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from rich.table import Table

Line = TypeVar("Line")

ALWAYS, FIRST, LAST = "always", "first", "last"
"""Groups of columns: in every table, in the first one only, in the last one."""


@dataclass(frozen=True)
class Column(Generic[Line]):
    """One column: what stands above it, and its text for a line.

    Attributes:
        head: a line break in it is for the terminal.
        text: of a line's cell.
        group: columns of one group stay together where a terminal is narrow.
        words: on the left, and wrapped where it is narrow; numbers are not.
    """

    head: str
    text: Callable[[Line], str]
    group: str
    words: bool = False


def fitted(lines: Sequence[Line], columns: Sequence[Column[Line]], caption: str, width: int) -> list[Table]:
    """Return one table where it fits, else several below each other; the caption stands below the last."""
    whole = table(lines, columns, caption)
    if _fits(whole, width):
        return [whole]
    groups = list(dict.fromkeys(c.group for c in columns if c.group not in (ALWAYS, FIRST, LAST)))
    parts: list[list[str]] = []
    for group in groups:
        wider = [*(parts[-1] if parts else [ALWAYS, FIRST]), group]
        if parts and not _fits(table(lines, _of(columns, wider)), width):
            parts.append([ALWAYS, group])
        else:
            parts[-1:] = [wider]
    last = table(lines, _of(columns, [ALWAYS, LAST]), caption)
    return [*(table(lines, _of(columns, part)) for part in parts), last]


def table(lines: Sequence[Line], columns: Sequence[Column[Line]], caption: str = "") -> Table:
    """Return one table for the terminal."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, caption=caption or None, caption_justify="left", padding=(0, 1))
    for column in columns:
        words = column.words
        made.add_column(column.head, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for line in lines:
        made.add_row(*(column.text(line) for column in columns))
    return made


def markdown_lines(lines: Sequence[Line], columns: Sequence[Column[Line]]) -> str:
    """Return the grid as a Markdown table."""
    heads = [" ".join(column.head.split("\n")) for column in columns]
    rule = [":--" if column.words else "--:" for column in columns]
    rows = [heads, rule, *([column.text(line) for column in columns] for line in lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _of(columns: Sequence[Column[Line]], groups: Sequence[str]) -> list[Column[Line]]:
    return [column for column in columns if column.group in groups]


def _fits(made: Table, width: int) -> bool:
    from rich.console import Console

    return Console(width=1000).measure(made).maximum <= width
