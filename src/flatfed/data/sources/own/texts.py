"""Any classification of texts that lies in a CSV file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.configuration.config import Count
from flatfed.core.errors import ConfigError, nearest
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.texts import Row, read_rows, whole_number
from flatfed.data.storage.held_out import Share
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.texts import Corpus, Ints, Script, Size, keyed_choice, text_pool

NAME = "texts"
Mask = npt.NDArray[np.bool_]
OF_LABELS = ("label", "labels", "class", "classes", "category", "target", "topic", "kind", "type", "sentiment")
OF_TEXTS = ("text", "texts", "content", "body", "message", "title", "sentence", "review")
TITLES = {*OF_LABELS, *OF_TEXTS}
"""Words that stand above a column of labels or texts."""


@source(NAME)
def texts(
    directory: DataDirectory,
    path: str = "",
    test: str = "",
    label: object = 0,
    text: object = 1,
    client: object = "",
    header: bool | None = None,
    delimiter: str = ",",
    test_share: Share = 0.1,
    vocabulary: Size = 30_000,
    length: Count = 128,
    script: Script = "ascii",
) -> Pool:
    """Texts of your own: a CSV file of labels and texts (data.path, data.label, data.text).

    `path` and `test` are looked for here, then in the data directory. Without a test file, `test_share` of each class
    is kept for the test, the same in every run. Columns are numbers from 0, or names in the first row; `text` may join
    several, `title+body`. Where all are numbers, `header` says whether the first row holds names (true) or a text
    (false); a row that looks like names must be told. Labels are any words. `client` is a column that says whose text
    it is, for the partition by nature. `script` is ascii, which drops other letters, or unicode.
    """
    layout = Layout(str(label), tuple(str(text).split("+")), str(client), header, _delimiter(delimiter), script)
    train = Table(_file(directory, "path", path), layout)
    given = train.column(layout.label)
    train.refuse_names(given)
    names = sorted(set(given), key=_order)
    if len(names) < 2:
        raise ConfigError(f"{train.path}: every row has the label {names[0]!r}; there must be two or more")
    labels = _numbered(given, names)
    held = np.zeros(len(labels), dtype=bool) if test else _held_out(labels, test_share)
    if not test and not held.any():
        raise ConfigError(f"{train.path} has one text of each label, none of which can be kept for a test; add texts")
    unseen = (
        _other(Table(_file(directory, "test", test), layout), names) if test else (train.corpus(held), labels[held])
    )
    seen = train.corpus(~held), labels[~held]
    groups = {"client": _by_client(train, layout.client)[~held]} if layout.client else {}
    return text_pool(NAME, seen, unseen, len(names), vocabulary, length, groups)


@dataclass(frozen=True)
class Layout:
    """Which columns a file has and how it is written."""

    label: str
    text: tuple[str, ...]
    client: str
    header: bool | None
    delimiter: str
    script: Script

    @property
    def has_names(self) -> bool:
        """Whether the first row holds the columns' names."""
        return bool(self.header) or any(whole_number(name) is None for name in self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are asked for."""
        return (self.label, *self.text, *((self.client,) if self.client else ()))


class Table:
    """A file with its columns found."""

    def __init__(self, path: Path, layout: Layout) -> None:
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
        first, others = labels[0], labels[1:]
        if self.layout.header is not None or self.layout.has_names or first in others:
            return
        texts = [self._first.fields[self._place(name)] for name in self.layout.text]
        told = _is_title(first) or all(map(_is_title, texts))
        if told or (others and not _is_number(first) and all(map(_is_number, others))):
            raise self._first.wrong(
                f"the first row looks like names of columns ({first[:40]!r} is the label of no other row); give "
                "--set data.header=true to pass it over, or --set data.header=false if it is a text"
            )

    def corpus(self, wanted: Mask | None = None) -> Corpus:
        """Return the texts, or those that are wanted."""
        columns = tuple(self._place(name) for name in self.layout.text)

        def chosen() -> Iterator[str]:
            for number, row in enumerate(self._rows()):
                if wanted is None or wanted[number]:
                    yield row.text(columns)

        return Corpus.read(chosen(), self.layout.script)

    def where(self, number: int) -> Row:
        """Return row `number`, to speak of it."""
        return next(row for place, row in enumerate(self._rows()) if place == number)

    def _rows(self) -> Iterator[Row]:
        rows = read_rows(self.path, delimiter=self.layout.delimiter)
        if self.layout.has_names:
            next(rows)
        return rows

    def _place(self, name: str) -> int:
        fields = [field.strip() for field in self._first.fields]
        if self.layout.has_names and name in fields:
            return fields.index(name)
        number = whole_number(name)
        if number is None:
            raise ConfigError(f"{self.path}: {nearest(name[:40], fields, 'column')}")
        if number >= len(fields):
            raise ConfigError(f"{self.path} has {len(fields)} columns, 0 to {len(fields) - 1}; there is no {name}")
        return number


def _other(table: Table, names: Sequence[str]) -> tuple[Corpus, Ints]:
    """Return the texts and classes of the test file; its labels must be those of the training file."""
    given = table.column(table.layout.label)
    for number, label in enumerate(given):
        if label not in names:
            raise table.where(number).wrong(f"no training text has the label {label[:40]!r}")
    return table.corpus(), _numbered(given, names)


def _numbered(values: Sequence[str], names: Sequence[str]) -> Ints:
    number = {name: place for place, name in enumerate(names)}
    return np.array([number[value] for value in values], np.int64)


def _by_client(table: Table, column: str) -> Ints:
    who = table.column(column)
    return _numbered(who, sorted(set(who), key=_order))


def _held_out(labels: Ints, share: float) -> Mask:
    """Return which rows are for the test: `share` of each class, to the nearest, but neither none nor all."""
    sizes = enumerate(np.bincount(labels).tolist())
    counts = {label: min(max(1, round(share * size)), size - 1) for label, size in sizes}
    return keyed_choice(labels, counts, f"{NAME} test")


def _order(name: str) -> tuple[int, int, str]:
    """Sort whole numbers by size, before words."""
    number = whole_number(name)
    return (1, 0, name) if number is None else (0, number, name)


def _is_title(text: str) -> bool:
    return text.strip().lower() in TITLES


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _file(directory: DataDirectory, option: str, name: str) -> Path:
    if not name:
        raise ConfigError(f"{NAME}: name the CSV file of labels and texts: --set data.{option}=FILE")
    places = directory.places(name)
    for place in places:
        if place.is_file():
            return directory.found(place)
    raise ConfigError(f"{NAME}: data.{option}: there is no file {' or '.join(map(str, places))}")


def _delimiter(given: str) -> str:
    text = {"tab": "\t", "\\t": "\t"}.get(given, given)
    if len(text) != 1 or text in '"\r\n':
        raise ConfigError(f"{NAME}: delimiter must be one character, or tab, not {given!r}")
    return text
