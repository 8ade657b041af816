"""A CSV file of labels and texts, with its columns found by name or number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.formats.texts import Row, read_rows, whole_number
from flatfed.data.storage.held_out import Mask
from flatfed.data.storage.texts import Corpus
from flatfed.data.storage.tokens import TextReading

OF_LABELS = ("label", "labels", "class", "classes", "category", "target", "topic", "kind", "type", "sentiment")
OF_TEXTS = ("text", "texts", "content", "body", "message", "title", "sentence", "review")
TITLES = {*OF_LABELS, *OF_TEXTS}
"""Words that stand above a column of labels or texts."""


@dataclass(frozen=True)
class ColumnLayout:
    """Which columns a file has and how it is written."""

    label: str
    text: tuple[str, ...]
    client: str
    header: bool | None
    delimiter: str
    reading: TextReading

    @property
    def has_names(self) -> bool:
        """Whether the first row holds the columns' names."""
        return bool(self.header) or any(whole_number(name) is None for name in self.columns)

    @property
    def may_have_names(self) -> bool:
        """Whether nothing says what the first row holds."""
        return self.header is None and not self.has_names

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are asked for."""
        columns = (self.label, *self.text)
        if self.client:
            columns += (self.client,)
        return columns


class TextTable:
    """A file with its columns found."""

    def __init__(self, path: Path, layout: ColumnLayout) -> None:
        self.path, self.layout = path, layout
        self._first = next(read_rows(path, delimiter=layout.delimiter))
        for name in layout.columns:
            self._place(name)
        if next(self._rows(), None) is None:
            raise ConfigError(f"{path} has a row of names and no others")

    def column(self, name: str) -> list[str]:
        """Return a column; no field may be empty."""
        place = (self._place(name),)
        return [row.text(place) for row in self._rows()]

    def refuse_names(self, labels: Sequence[str]) -> None:
        """Refuse a first row that looks like names, whose label would become a class of one text."""
        if self.layout.may_have_names and self._looks_like_names(labels[0], labels[1:]):
            raise self._first.wrong(
                f"the first row looks like names of columns ({labels[0][:40]!r} is the label of no other row); give "
                "data.header=true to pass it over, or data.header=false if it is a text"
            )

    def _looks_like_names(self, first: str, others: Sequence[str]) -> bool:
        """Say whether the first row has a label of its own and usual titles, or the only label that is no number."""
        if first in others:
            return False
        if _is_title(first) or self._texts_are_titles():
            return True
        return not _is_number(first) and _are_numbers(others)

    def _texts_are_titles(self) -> bool:
        places = map(self._place, self.layout.text)
        return all(_is_title(self._first.fields[place]) for place in places)

    def corpus(self, wanted: Mask | None = None) -> Corpus:
        """Return the texts, or those that are wanted."""
        columns = tuple(map(self._place, self.layout.text))
        rows = self._rows()
        if wanted is not None:
            rows = itertools.compress(rows, wanted)
        return self.layout.reading.read(row.text(columns) for row in rows)

    def where(self, number: int) -> Row:
        """Return row `number`, to speak of it."""
        return next(itertools.islice(self._rows(), number, None))

    def _rows(self) -> Iterator[Row]:
        rows = read_rows(self.path, delimiter=self.layout.delimiter)
        if self.layout.has_names:
            next(rows)
        return rows

    def _place(self, name: str) -> int:
        fields = list(map(str.strip, self._first.fields))
        if self.layout.has_names and name in fields:
            return fields.index(name)
        return self._numbered_place(name, fields)

    def _numbered_place(self, name: str, fields: Sequence[str]) -> int:
        number = whole_number(name)
        if number is None:
            raise ConfigError(f"{self.path}: {nearest(name[:40], fields, 'column')}")
        if number >= len(fields):
            raise ConfigError(f"{self.path} has {len(fields)} columns, 0 to {len(fields) - 1}; there is no {name}")
        return number


def _is_title(text: str) -> bool:
    return text.strip().lower() in TITLES


def _are_numbers(texts: Sequence[str]) -> bool:
    """Say whether there are texts and all of them are numbers."""
    return bool(texts) and all(map(_is_number, texts))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
