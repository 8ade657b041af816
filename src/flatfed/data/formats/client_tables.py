"""Tables that say which file belongs to whom: CSV files with a header; an error names the file and the line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError
from flatfed.data.formats.texts import Row, read_rows, whole_number

Ints = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """The rows below a header, and where the columns are."""

    path: Path
    rows: list[Row]
    places: dict[str, int]

    def __contains__(self, column: str) -> bool:
        return column in self.places

    def column(self, name: str) -> list[str]:
        """Return the cells of a column; an empty one is an error."""
        cells = [row.fields[self.places[name]].strip() for row in self.rows]
        for row, cell in zip(self.rows, cells, strict=True):
            if not cell:
                raise row.wrong(f"the {name} is empty")
        return cells

    def read(self, name: str, convert: Callable[[str], T]) -> list[T]:
        """Return the cells of a column converted; a `ConfigError` of `convert` is given the line."""
        values = []
        for row, cell in zip(self.rows, self.column(name), strict=True):
            try:
                values.append(convert(cell))
            except ConfigError as error:
                raise row.wrong(str(error)) from None
        return values

    def check_single(self, values: Sequence[str], what: str) -> None:
        """Refuse a value that is there twice."""
        first: dict[str, Row] = {}
        for row, value in zip(self.rows, values, strict=True):
            if value in first:
                raise row.wrong(f"{what} {value} is there already, on line {first[value].line}")
            first[value] = row

    def check_there(self, files: Sequence[str]) -> None:
        """Refuse files that are missing."""
        there = map(os.path.exists, files)  # `Path` would take several times as long for hundreds of thousands
        missing = [(row, file) for row, file, found in zip(self.rows, files, there, strict=True) if not found]
        if missing:
            row, file = missing[0]
            others = f" ({len(missing):,} of {len(files):,} are)" if len(missing) > 1 else ""
            raise row.wrong(f"the image {file} is missing{others}")


def read_table(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Read a CSV file whose first row names its columns, in any order; others than these are passed over."""
    header, *rows = read_rows(path)
    names = [name.strip().lower() for name in header.fields]
    for name in needed:
        if name not in names:
            wanted = f"{','.join(needed)}{''.join(f'[,{n}]' for n in optional)}"
            raise header.wrong(f"no column {name!r}; the first line must name the columns, {wanted}")
    for name in (*needed, *optional):
        if names.count(name) > 1:
            raise header.wrong(f"the column {name!r} is there twice")
    if not rows:
        raise ConfigError(f"{path} has a header and no rows")
    return Table(path, rows, {name: names.index(name) for name in (*needed, *optional) if name in names})


def class_number(classes: int) -> Callable[[str], int]:
    """Return what reads a class, a whole number below `classes`."""

    def convert(cell: str) -> int:
        number = whole_number(cell)
        if number is None or number >= classes:
            raise ConfigError(f"the class must be a whole number from 0 to {classes - 1}, not {cell[:40]!r}")
        return number

    return convert


def in_order(values: Sequence[str]) -> list[str]:
    """Return the different values: by number if all are whole numbers, else by text."""
    different = sorted(set(values))
    if any(whole_number(value) is None for value in different):
        return different
    return sorted(different, key=int)


def numbered(values: Sequence[str], order: Sequence[str]) -> Ints:
    """Return the place of each value in `order`."""
    place = {value: number for number, value in enumerate(order)}
    return np.array([place[value] for value in values], np.int64)
