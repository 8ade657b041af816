"""Any classification of texts that lies in a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from flatfed.core.configuration.checking import Count
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import source
from flatfed.data.directory import DataDirectory, MissingOption
from flatfed.data.formats.texts import separator_of, whole_number
from flatfed.data.sources.own.text_table import ColumnLayout, TextTable
from flatfed.data.storage.held_out import Mask, Share
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.texts import Corpus, Ints, Script, Size, TextReader, keyed_choice, text_pool
from flatfed.data.storage.tokens import TextReading

NAME = "texts"


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
    tokenizer: str = "",
) -> Pool:
    """Texts of your own: a CSV file of labels and texts (data.path, data.label, data.text).

    `path` and `test` are looked for here, then in the data directory. Without a test file, `test_share` of each class
    is kept for the test, the same in every run. Columns are numbers from 0, or names in the first row; `text` may join
    several, `title+body`. Where all are numbers, `header` says whether the first row holds names (true) or a text
    (false); a row that looks like names must be named. Labels are any words. `client` is a column that says whose text
    it is, for the partition by nature. `script` is ascii, which drops other letters, or unicode. `tokenizer` is a
    folder with the tokenizer of a model (`hf:FOLDER` brings its own): its tokens take the place of words.
    """
    reading = TextReading(script, tokenizer, length)
    columns = tuple(str(text).split("+"))
    layout = ColumnLayout(str(label), columns, str(client), header, separator_of(delimiter, NAME), reading)
    table = TextTable(_file(directory, "path", path), layout)
    cells = table.column(layout.label)
    table.refuse_names(cells)
    names = sorted(set(cells), key=_order)
    if len(names) < 2:
        raise ConfigError(f"{table.path}: every row has the label {names[0]!r}; there must be two or more")
    labels = _numbered(cells, names)
    if test:
        held = np.zeros(len(labels), dtype=bool)
        tested = _other(TextTable(_file(directory, "test", test), layout), names)
    else:
        held = _held_out(table, labels, test_share)
        tested = table.corpus(held), labels[held]
    trained = table.corpus(~held), labels[~held]
    pool = text_pool(NAME, trained, tested, len(names), vocabulary, length, _groups(table, ~held), names)
    assert isinstance(pool.reader, TextReader)
    reader = replace(pool.reader, columns=layout.text, delimiter=layout.delimiter, header=layout.has_names)
    return replace(pool, reader=reader)


def _other(table: TextTable, names: Sequence[str]) -> tuple[Corpus, Ints]:
    """Return the texts and classes of the test file; its labels must be those of the training file."""
    cells = table.column(table.layout.label)
    for number, label in enumerate(cells):
        if label not in names:
            raise table.where(number).wrong(f"no training text has the label {label[:40]!r}")
    return table.corpus(), _numbered(cells, names)


def _numbered(values: Sequence[str], names: Sequence[str]) -> Ints:
    number = {name: place for place, name in enumerate(names)}
    return np.array([number[value] for value in values], np.int64)


def _groups(table: TextTable, trained: Mask) -> dict[str, Ints]:
    """Return the owners of the training texts, where a column says them; they are numbered over all texts."""
    if not table.layout.client:
        return {}
    owners = table.column(table.layout.client)
    numbers = _numbered(owners, sorted(set(owners), key=_order))
    return {"client": numbers[trained]}


def _held_out(table: TextTable, labels: Ints, share: float) -> Mask:
    """Return which rows are for the test: `share` of each class, to the nearest, but neither none nor all."""
    sizes = enumerate(np.bincount(labels).tolist())
    counts = {label: min(max(1, round(share * size)), size - 1) for label, size in sizes}
    held = keyed_choice(labels, counts, f"{NAME} test")
    if not held.any():
        raise ConfigError(f"{table.path} has one text of each label, none of which can be kept for a test; add texts")
    return held


def _order(name: str) -> tuple[int, int, str]:
    """Sort whole numbers by size, before words."""
    number = whole_number(name)
    if number is None:
        return 1, 0, name
    return 0, number, name


def _file(directory: DataDirectory, option: str, name: str) -> Path:
    if not name:
        raise MissingOption(NAME, "name the CSV file of labels and texts", option, "FILE")
    places = directory.places(name)
    file = next(filter(Path.is_file, places), None)
    if file is not None:
        return directory.found(file)
    raise ConfigError(f"{NAME}: data.{option}: there is no file {' or '.join(map(str, places))}")
