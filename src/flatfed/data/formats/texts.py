"""Tables of texts: CSV files in UTF-8, read row by row; an error names the file and the line."""

from __future__ import annotations

import contextlib
import csv
import gzip
import itertools
import os
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from flatfed.core.errors import ConfigError
from flatfed.data.formats.files import readable
from flatfed.machine import open_regular

LONGEST = 2**24
"""Characters in a field, at most; a longer one is a quotation mark that was never closed."""
PACKED = ".gz"
"""How the name of a file ends whose content is gzipped."""
DIGITS = 18
"""Digits of a number, at most; what has more is no number but a name."""


def whole_number(text: str) -> int | None:
    """Return the number that a text spells in digits and nothing else; None where it does not."""
    # `isdigit` alone admits digits of other scripts, and superscripts, which `int` refuses.
    if text.isascii() and text.isdigit() and len(text) <= DIGITS:
        return int(text)
    return None


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
        text = " ".join(self.fields[column] for column in columns).strip()
        if not text:
            where = " and ".join(str(column + 1) for column in columns)
            raise self.wrong(f"the text (column {where}) is empty; fill it in, remove the row or take another column")
        return text


def separator_of(given: str, owner: str) -> str:
    """Return the character between columns that an option names; `owner` is whose option it is."""
    text = {"tab": "\t", "\\t": "\t"}.get(given, given)
    if len(text) != 1 or text in '"\r\n':
        raise ConfigError(f"{owner}: delimiter must be one character, or tab, not {given!r}")
    return text


def read_rows(path: Path, columns: int | None = None, delimiter: str = ",") -> Iterator[Row]:
    """Yield the rows of a file; each must have `columns` columns, or as many as the first row. Blank lines go by."""
    # Closed here: an error that is kept would keep the file open too.
    with contextlib.closing(_all_rows(path, delimiter)) as all_rows:
        rows = filter(_is_filled, all_rows)
        first = next(rows, None)
        if first is None:
            raise ConfigError(f"{path} has no rows")
        for row in itertools.chain([first], rows):
            _check_width(row, columns or len(first.fields))
            yield row


def _is_filled(row: Row) -> bool:
    return bool(row.fields)


def _check_width(row: Row, columns: int) -> None:
    width = len(row.fields)
    if width != columns:
        plural = "" if width == 1 else "s"
        raise row.wrong(f"{width} column{plural} instead of {columns}; a text with commas must be in quotes")


def _all_rows(path: Path, delimiter: str) -> Generator[Row, None, None]:
    """Yield every row, blank lines too, with the line on which it begins."""
    with readable(path):
        file = os.fdopen(open_regular(path), "rb")
    with file:
        # Strict, because a quotation mark that is never closed would be accepted otherwise.
        reader = csv.reader(_decoded(path, file), delimiter=delimiter, strict=True)
        # The limit belongs to the module; its default is too low for long texts.
        csv.field_size_limit(LONGEST)
        begin = 1
        while (fields := _next_fields(reader, path, begin)) is not None:
            yield Row(path, begin, fields)
            # A field may hold line breaks: where the next row begins, only the reader knows.
            begin = reader.line_num + 1


def _next_fields(reader: Iterator[list[str]], path: Path, line: int) -> list[str] | None:
    """Return the fields of the next row; None at the end of the file."""
    try:
        return next(reader, None)
    except csv.Error as error:
        raise ConfigError(f"{path}, line {line}: not a row of a CSV file: {error}") from None


def _decoded(path: Path, file: BinaryIO) -> Iterator[str]:
    """Yield the lines as text; bytes that are not UTF-8, and zero bytes, are an error."""
    encoding = "utf-8-sig"
    for number, line in enumerate(_lines(path, file), 1):
        yield _decoded_line(f"{path}, line {number}", line, encoding)
        # Only at the begin of the file is a byte order mark none of the text.
        encoding = "utf-8"


def _lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, unpacked where its name says that it is gzipped."""
    if path.suffix.lower() != PACKED:
        yield from file
        return
    try:
        with gzip.GzipFile(fileobj=file) as content:
            yield from content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{path} is no whole gzip file: {error}; write it again, or give it unpacked") from None


def _decoded_line(place: str, line: bytes, encoding: str) -> str:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{place}: byte {error.start + 1} is not UTF-8; convert the file") from None
    if "\0" in text:
        raise ConfigError(f"{place}: holds a zero byte; this is no CSV file, or it is damaged")
    return text
