"""Numbers as people read them, in columns with heads: for the terminal and as Markdown.

A `Sheet` is a table as rows of cells, also as CSV.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flatfed.runs.metrics import Metric

if TYPE_CHECKING:
    from rich.table import Table


NOTHING = "–"
UNITS = ("kB", "MB", "GB", "TB")
STEP = 999.95
"""From here on one decimal would be printed as `1,000.0`: the next unit is taken."""
Spread = tuple[float, float | None]
"""A mean and a sample standard deviation; None for the latter where there is one value."""


Key = TypeVar("Key")
Value = TypeVar("Value")


def known(values: Iterable[Value | None]) -> list[Value]:
    """Return the values that there are."""
    return [value for value in values if value is not None]


def known_items(values: Mapping[Key, Value | None]) -> dict[Key, Value]:
    """Return the values that there are, by what they were taken of."""
    return {key: value for key, value in values.items() if value is not None}


def spread_of(values: Sequence[float]) -> Spread | None:
    """Return mean and sample standard deviation, None for the latter where there is one value."""
    if not values:
        return None
    return statistics.fmean(values), _deviation(values)


def _deviation(values: Sequence[float]) -> float | None:
    if len(values) == 1:
        return None
    return statistics.stdev(values)


def mean_of(spread: Spread | None) -> float | None:
    """Return the mean, or None where there is no value."""
    if spread is None:
        return None
    return spread[0]


def of_metric(metric: Metric, spread: Spread | None) -> str:
    """Return a metric's value in its unit."""
    if metric.shown.unit == "%":
        return percent(spread)
    return number(spread)


def percent(spread: Spread | None) -> str:
    """Return mean ± deviation in per cent, or a dash."""
    return _written(spread, lambda mean: f"{100 * mean:.2f}", lambda deviation: f"{100 * deviation:.2f}")


def number(spread: Spread | None) -> str:
    """Return mean ± deviation of a plain number, or a dash."""
    return _written(spread, lambda mean: f"{mean:.4g}", lambda deviation: f"{deviation:.2g}")


def _written(spread: Spread | None, of_mean: Callable[[float], str], of_deviation: Callable[[float], str]) -> str:
    """Return mean ± deviation, each in its form; the mean alone where there is no deviation."""
    if spread is None:
        return NOTHING
    mean, deviation = spread
    if deviation is None:
        return of_mean(mean)
    return f"{of_mean(mean)} ± {of_deviation(deviation)}"


def megabytes(count: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    if count < STEP:
        return f"{count:.0f} B"
    value, power = count / 1000, 0
    while value >= STEP and power < len(UNITS) - 1:
        value /= 1000
        power += 1
    return f"{value:,.1f} {UNITS[power]}"


Line = TypeVar("Line")

ALWAYS, FIRST, LAST = "always", "first", "last"
"""Groups of columns: in every table, in the first one only, in the last one."""
UNBOUNDED = 1000
"""Characters: a terminal so wide that a table has the width that it needs."""


@dataclass(frozen=True)
class Column(Generic[Line]):
    """One column: what stands above it, and its text for a line.

    Attributes:
        head: a line break in it is for the terminal.
        text: of a line's cell.
        group: columns of one group stay together where a terminal is narrow.
        words: on the left, and wrapped where it is narrow; numbers are not.
        rank: where a terminal is narrow, columns are left out from the highest rank on; those of rank 0 never are.
    """

    head: str
    text: Callable[[Line], str]
    group: str
    words: bool = False
    rank: int = 0


def texts_of(line: Line, columns: Sequence[Column[Line]]) -> list[str]:
    """Return the texts of a line, column by column."""
    return [column.text(line) for column in columns]


def heads_of(columns: Sequence[Column[Line]]) -> list[str]:
    """Return the heads of columns."""
    return [column.head for column in columns]


def chosen_columns(lines: Sequence[Line], columns: Sequence[Column[Line]], width: int) -> list[Column[Line]]:
    """Return the columns that a terminal of this width has room for, the least important ones left out."""
    chosen = [column for column in columns if not column.rank]
    for column in sorted(columns, key=attrgetter("rank")):
        wider = [own for own in columns if own in chosen or own is column]
        # A narrow column may fit where one before it does not.
        if fits(table(lines, wider), width):
            chosen = wider
    return chosen


def fitted(lines: Sequence[Line], columns: Sequence[Column[Line]], width: int) -> list[Table]:
    """Return one table where it fits, else several below each other."""
    whole = table(lines, columns)
    if fits(whole, width):
        return [whole]
    parts = _parts(lines, columns, width)
    tables = [table(lines, _of(columns, part)) for part in parts]
    if any(column.group == LAST for column in columns):
        # The costs have a table of their own, however much room there is: they belong together.
        tables.append(table(lines, _of(columns, [ALWAYS, LAST])))
    return tables


def _parts(lines: Sequence[Line], columns: Sequence[Column[Line]], width: int) -> list[list[str]]:
    """Return the groups of columns of each table but the last: as many groups as fit side by side."""
    parts: list[list[str]] = []
    for group in _movable(columns):
        if not parts:  # the first group stands there even where it is too wide: it must stand somewhere
            parts.append([ALWAYS, FIRST, group])
            continue
        wider = [*parts[-1], group]
        if fits(table(lines, _of(columns, wider)), width):
            parts[-1] = wider
        else:
            parts.append([ALWAYS, group])
    return parts


def _movable(columns: Sequence[Column[Line]]) -> list[str]:
    """Return the groups that may stand in any table, in order."""
    groups = dict.fromkeys(column.group for column in columns)
    return [group for group in groups if group not in (ALWAYS, FIRST, LAST)]


def table(lines: Sequence[Line], columns: Sequence[Column[Line]], caption: str = "") -> Table:
    """Return one table for the terminal."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, caption=caption or None, caption_justify="left", padding=(0, 1))
    for column in columns:
        # Folded, because an ellipsis would hide digits.
        made.add_column(column.head, overflow="fold", **_alignment(column))
    for line in lines:
        made.add_row(*texts_of(line, columns))
    return made


def _alignment(column: Column[Line]) -> dict[str, Any]:
    if column.words:
        return {"justify": "left", "no_wrap": False}
    return {"justify": "right", "no_wrap": True}


def markdown_lines(lines: Sequence[Line], columns: Sequence[Column[Line]]) -> str:
    """Return the grid as a Markdown table."""
    rules = [rule(column.words) for column in columns]
    rows = [texts_of(line, columns) for line in lines]
    return markdown_table(heads_of(columns), rules, rows)


def markdown_table(heads: Sequence[str], rules: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, without a line break at its end."""
    lines = [one_line(heads), rules, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rule(words: bool) -> str:
    """Return what stands in Markdown below a head: words are on the left, numbers on the right."""
    if words:
        return ":--"
    return "--:"


def one_line(heads: Sequence[str]) -> list[str]:
    """Return heads without the line breaks that are for the terminal."""
    return [head.replace("\n", " ") for head in heads]


def _of(columns: Sequence[Column[Line]], groups: Sequence[str]) -> list[Column[Line]]:
    return [column for column in columns if column.group in groups]


def fits(made: Table, width: int) -> bool:
    """Say whether a terminal of this width holds a table."""
    from rich.console import Console

    # Measured without a limit, because rich makes a table fit by folding it.
    return Console(width=UNBOUNDED).measure(made).maximum <= width


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
