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
class ClientTable:
    """The rows below a header, and where the columns are."""

    path: Path
    rows: list[Row]
    places: dict[str, int]

    def __contains__(self, column: str) -> bool:
        return column in self.places

    def column(self, name: str) -> list[str]:
        """Return the cells of a column; an empty one is an error."""
        place = self.places[name]
        return [_filled(row, place, name) for row in self.rows]

    def read(self, name: str, convert: Callable[[str], T]) -> list[T]:
        """Return the cells of a column converted; a `ConfigError` of `convert` is given the line."""
        return [_converted(row, cell, convert) for row, cell in zip(self.rows, self.column(name), strict=True)]

    def check_single(self, values: Sequence[str], what: str) -> None:
        """Refuse a value that is there twice."""
        first: dict[str, Row] = {}
        for row, value in zip(self.rows, values, strict=True):
            if value in first:
                raise row.wrong(f"{what} {value} is there already, on line {first[value].line}")
            first[value] = row

    def check_there(self, files: Sequence[str]) -> None:
        """Refuse files that are missing."""
        # `os.path`: for hundreds of thousands of files `Path` would take several times as long.
        there = list(map(os.path.exists, files))
        if not all(there):
            first = there.index(False)
            others = how_many(there.count(False), f"of {len(files):,} ")
            raise self.rows[first].wrong(f"the image {files[first]} is missing{others}")


def how_many(missing: int, what: str) -> str:
    """Return how many are missing, in brackets, where it is not the one that the message names."""
    if missing == 1:
        return ""
    return f" ({missing:,} {what}are)"


def _filled(row: Row, place: int, name: str) -> str:
    cell = row.fields[place].strip()
    if not cell:
        raise row.wrong(f"the {name} is empty")
    return cell


def _converted(row: Row, cell: str, convert: Callable[[str], T]) -> T:
    try:
        return convert(cell)
    except ConfigError as error:
        raise row.wrong(str(error)) from None


def read_table(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> ClientTable:
    """Read a CSV file whose first row names its columns, in any order; others than these are passed over."""
    header, *rows = read_rows(path)
    places = _places(header, needed, optional)
    if not rows:
        raise ConfigError(f"{path} has a header and no rows")
    return ClientTable(path, rows, places)


def _places(header: Row, needed: Sequence[str], optional: Sequence[str]) -> dict[str, int]:
    """Return where the columns are that the header names."""
    names = [name.strip().lower() for name in header.fields]
    _check_needed(header, names, needed, optional)
    known = [name for name in (*needed, *optional) if name in names]
    return {name: _place(header, names, name) for name in known}


def _check_needed(header: Row, names: Sequence[str], needed: Sequence[str], optional: Sequence[str]) -> None:
    for name in needed:
        if name not in names:
            columns = f"{','.join(needed)} (optional: {','.join(optional) or 'none'})"
            raise header.wrong(f"no column {name!r}; the first line must name the columns, {columns}")


def _place(header: Row, names: Sequence[str], name: str) -> int:
    if names.count(name) > 1:
        raise header.wrong(f"the column {name!r} is there twice")
    return names.index(name)


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
    if None in map(whole_number, different):
        return different
    return sorted(different, key=int)


def numbered(values: Sequence[str], order: Sequence[str]) -> Ints:
    """Return the place of each value in `order`."""
    place = {value: number for number, value in enumerate(order)}
    return np.array([place[value] for value in values], np.int64)
