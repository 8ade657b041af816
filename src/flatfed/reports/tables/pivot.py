"""A table of methods x settings, mean ± standard deviation in each cell: as Markdown and CSV."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flatfed.reports.tables.grid import NOTHING, csv_text, markdown_table, rule

DIVERGED = "✗"
SPECIAL = re.compile(r"([\\`*_|<>\[\]#&])")
"""What Markdown may take for more than itself."""
DIGITS = 4
"""Significant digits of the largest number of a column that is not in per cent."""


@dataclass(frozen=True)
class PivotCell:
    """One method in one setting, in the unit that is printed.

    Attributes:
        mean: over the seeds; None where there is none.
        deviation: the sample standard deviation; None for one seed.
        is_best: printed bold.
        is_second: underlined.
        has_diverged: printed as a cross.
        remark: what stands there where there is no mean, such as `2 of 3 seeds`.
    """

    mean: float | None = None
    deviation: float | None = None
    is_best: bool = False
    is_second: bool = False
    has_diverged: bool = False
    remark: str = ""


@dataclass(frozen=True)
class Pivot:
    """Rows of methods, columns of settings.

    Attributes:
        rows: names of methods.
        columns: names of settings; one that is empty is printed as `all`.
        cells: by row and column.
        caption: what the table is.
        note: what its numbers are.
        label: by which a paper refers to it.
        decimals: of each column; 2 where a column is not named.
        corner: what stands above the names of the rows.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[str, str], PivotCell]
    caption: str = ""
    note: str = ""
    label: str = "tab:results"
    decimals: Mapping[str, int] = field(default_factory=dict)
    corner: str = "method"

    def cell(self, row: str, column: str) -> PivotCell:
        """Return a cell; an empty one where there is none."""
        cell = self.cells.get((row, column), PivotCell())
        if cell.mean is None or math.isfinite(cell.mean):
            return cell
        return PivotCell(has_diverged=True)

    def heads(self) -> list[str]:
        """Return the heads of the columns with numbers."""
        return [name or "all" for name in self.columns]

    def numbers(self, cell: PivotCell, column: str) -> tuple[str, str]:
        """Return mean and deviation of a cell as printed; the latter is empty for one seed."""
        assert cell.mean is not None
        places = self.decimals.get(column, 2)
        deviation = "" if cell.deviation is None else f"{cell.deviation:.{places}f}"
        return f"{cell.mean:.{places}f}", deviation

    def marks(self, best: str, second: str, cross: str) -> str:
        """Return what the marks say, in the words of a format; nothing where there are none."""
        cells = [self.cell(row, column) for row in self.rows for column in self.columns]
        used = {
            f"best {best}": any(cell.is_best for cell in cells),
            f"second best {second}": any(cell.is_second for cell in cells),
            f"{cross} diverged": any(cell.has_diverged for cell in cells),
        }
        text = "; ".join(mark for mark, is_used in used.items() if is_used)
        return f"{text[0].upper()}{text[1:]}." if text else ""


def decimals_for(values: Sequence[float], is_percent: bool) -> int:
    """Return the decimals of a column: two for per cent, else as many as give the largest four digits in all."""
    sizes = [abs(value) for value in values if math.isfinite(value) and value != 0]
    if is_percent or not sizes:
        return 2
    before = math.floor(math.log10(max(sizes))) + 1
    return max(DIGITS - before, 0)


def pivot_markdown(pivot: Pivot) -> str:
    """Return the table as Markdown: best bold, second underlined."""
    heads = [escape_markdown(head) for head in [pivot.corner, *pivot.heads()]]
    rules = [rule(words=place == 0) for place in range(len(heads))]
    rows = []
    for row in pivot.rows:
        cells = [_markdown_cell(pivot, row, column) for column in pivot.columns]
        rows.append([escape_markdown(row), *cells])
    caption = f"**{escape_markdown(pivot.caption)}**" if pivot.caption else ""
    marks = pivot.marks("**bold**", "<u>underlined</u>", DIVERGED)
    note = " ".join(part for part in (escape_markdown(pivot.note), marks) if part)
    parts = [caption, markdown_table(heads, rules, rows), note]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape_markdown(text: str) -> str:
    """Return text that Markdown prints as it is."""
    return SPECIAL.sub(r"\\\1", text)


def _markdown_cell(pivot: Pivot, row: str, column: str) -> str:
    cell = pivot.cell(row, column)
    if cell.mean is None:
        return DIVERGED if cell.has_diverged else escape_markdown(cell.remark or NOTHING)
    mean, deviation = pivot.numbers(cell, column)
    text = f"{mean} ± {deviation}" if deviation else mean
    if cell.is_best:
        return f"**{text}**"
    if cell.is_second:
        return f"<u>{text}</u>"
    return text


def pivot_csv(pivot: Pivot) -> str:
    """Return the table as CSV, a line for each cell, with all digits."""
    records = []
    for row in pivot.rows:
        for column, head in zip(pivot.columns, pivot.heads(), strict=True):
            cell = pivot.cell(row, column)
            records.append(
                {
                    pivot.corner: row,
                    "setting": head,
                    "mean": cell.mean,
                    "std": cell.deviation,
                    "mark": _mark(cell),
                    "remark": "diverged" if cell.has_diverged else cell.remark,
                }
            )
    return csv_text([pivot.corner, "setting", "mean", "std", "mark", "remark"], records)


def _mark(cell: PivotCell) -> str:
    if cell.is_best:
        return "best"
    return "second" if cell.is_second else ""
