"""Tables of texts: CSV files in UTF-8, read row by row; an error names the file and the line."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flatfed.core.errors import ConfigError

LONGEST = 2**24
"""Characters in a field, at most; a longer one is a quotation mark that was never closed."""
DIGITS = 18
"""Digits of a number, at most; what has more is no number but a name."""


def whole_number(text: str) -> int | None:
    """Return the number that a text spells in digits and nothing else; None where it does not."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


@dataclass(frozen=True)
class Row:
    """One row: where it begins, and its fields."""

    path: Path
    line: int
    fields: list[str]

    def wrong(self, what: str) -> ConfigError:
        """Return the error that something is wrong with this row."""
        return ConfigError(f"{self.path}, line {self.line}: {what}")

    def text(self, columns: tuple[int, ...]) -> str:
        """Return the text of these columns, joined by spaces; where there is none, that is an error."""
        found = " ".join(self.fields[column] for column in columns).strip()
        if not found:
            where = " and ".join(str(column + 1) for column in columns)
            raise self.wrong(f"the text (column {where}) is empty; fill it in, remove the row or take another column")
        return found


def read_rows(path: Path, columns: int | None = None, delimiter: str = ",") -> Iterator[Row]:
    """Yield the rows of a file; each must have as many columns as asked for, or as the first row. Blank lines go by."""
    with _opened(path) as file:
        lines = _decoded(path, file)
        # Fields may hold line breaks, so that the reader's count, not the row's, says where a row begins.
        reader, begin, empty = csv.reader(lines, delimiter=delimiter, strict=True), 1, True
        csv.field_size_limit(LONGEST)
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                raise ConfigError(f"{path}, line {begin}: not a row of a CSV file: {error}") from None
            row, begin = Row(path, begin, fields), reader.line_num + 1
            if not fields:
                continue
            columns, empty = len(fields) if columns is None else columns, False
            if len(fields) != columns:
                found = f"{len(fields)} column{'s' if len(fields) != 1 else ''}"
                raise row.wrong(f"{found} instead of {columns}; a text with commas must be in quotes")
            yield row
    if empty:
        raise ConfigError(f"{path} has no rows")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    with file:
        yield file


def _decoded(path: Path, file: BinaryIO) -> Iterator[str]:
    """Yield the lines as text; bytes that are not UTF-8, and zero bytes, are an error."""
    for number, line in enumerate(file, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}, line {number}: byte {error.start + 1} is not UTF-8; convert the file") from None
        if "\0" in text:
            raise ConfigError(f"{path}, line {number}: holds a zero byte; this is no CSV file, or it is damaged")
        yield text
