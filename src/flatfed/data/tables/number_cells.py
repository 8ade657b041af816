"""Cells that are numbers: which decimal sign a file has, and which columns are numbers at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError
from flatfed.data.formats.number_tables import finite_number
from flatfed.data.tables.text_columns import TextColumns, is_missing

Decimal = Literal["point", "comma"]
DecimalOption = Literal["auto", "point", "comma"]
Doubles = npt.NDArray[np.float64]


def number_of(cell: str, decimal: Decimal = "point") -> float | None:
    """Return the number in a cell; None where it is none."""
    if decimal == "comma":
        # A point beside a comma would set thousands apart in one country and be the decimal sign in another.
        return finite_number(cell.replace(",", ".")) if cell.count(",") < 2 and "." not in cell else None
    return finite_number(cell)


def numbers_of(cells: Sequence[str], decimal: Decimal = "point") -> Doubles | None:
    """Return the numbers of a column, NaN for a missing one; None where a cell is something else."""
    quick = _all_plain(cells) if decimal == "point" else None
    if quick is not None:
        return quick
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        if is_missing(cell):
            values[row] = np.nan
            continue
        value = number_of(cell, decimal)
        if value is None:
            return None
        values[row] = value
    return values


def _all_plain(cells: Sequence[str]) -> Doubles | None:
    """Return the numbers of a column without missing ones, quickly; None where it is not of that kind."""
    together = "".join(cells)
    # `float` alone admits 1_000, digits of other scripts, and words such as infinity.
    if not together.isascii() or "_" in together:
        return None
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return values if bool(np.isfinite(values).all()) else None


def decimal_of(table: TextColumns, columns: Sequence[str], asked: DecimalOption) -> Decimal:
    """Return the decimal sign of a file: as is asked for, or the comma where numbers have one and columns do not."""
    if asked != "auto":
        return asked
    commas = _first_with(table, columns, ",")
    if commas is None:
        return "point"
    name, row = commas
    if table.separator == ",":
        raise table.wrong(
            row,
            f"the column {name!r} holds {table.cells[name][row][:40]!r}; say what the comma is: data.decimal=comma for "
            "a decimal comma, or take commas between thousands out of the file",
        )
    points = _first_with(table, columns, ".")
    if points is not None:
        raise table.wrong(
            points[1],
            f"the column {points[0]!r} has decimal points and {name!r} decimal commas; write the file one way, or say "
            "which it is with data.decimal",
        )
    return "comma"


def _first_with(table: TextColumns, columns: Sequence[str], sign: str) -> tuple[str, int] | None:
    """Return column and row of the first cell that has a sign, in columns that are numbers by that sign."""
    decimal: Decimal = "comma" if sign == "," else "point"
    for name in columns:
        cells = table.cells[name]
        # Of all cells in one text: most columns have the sign nowhere, and that is seen quickly.
        if sign in "".join(cells) and numbers_of(cells, decimal) is not None:
            return name, next(row for row, cell in enumerate(cells) if sign in cell)
    return None


def check_unmixed(table: TextColumns, name: str, decimal: Decimal) -> None:
    """Refuse a column that has words among its numbers."""
    numbers, word = 0, -1
    for row, cell in enumerate(table.cells[name]):
        if is_missing(cell):
            continue
        if number_of(cell, decimal) is None:
            word = row if word < 0 else word
        else:
            numbers += 1
    if numbers and word >= 0:
        raise table.wrong(
            word,
            f"the column {name!r} holds {table.cells[name][word][:40]!r} among {numbers:,} numbers; correct it, empty "
            "the cell, or name the column in data.categories if it holds categories",
        )


def require_numbers(table: TextColumns, name: str, decimal: Decimal) -> Doubles:
    """Return the numbers of a column, NaN for a missing one; a word is an error that names its line."""
    values = numbers_of(table.cells[name], decimal)
    if values is not None:
        return values
    for row, cell in enumerate(table.cells[name]):
        if not is_missing(cell) and number_of(cell, decimal) is None:
            raise table.wrong(row, f"the column {name!r} holds {cell[:40]!r}, which is not a number such as 12 or 0.5")
    raise ConfigError(f"{table.path}: the column {name!r} holds no numbers")
