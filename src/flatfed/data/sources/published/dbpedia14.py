"""DBpedia-14: the topics of Wikipedia's subjects (X. Zhang, J. Zhao, Y. LeCun 2015)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from flatfed.core.configuration.config import Count, Index
from flatfed.core.errors import ConfigError
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.class_names import DBPEDIA14
from flatfed.data.formats.texts import Row, read_rows, whole_number
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.texts import Corpus, Ints, Size, keyed_choice, text_pool

NAME, FOLDER = "dbpedia14", "dbpedia_csv"
CLASSES, COLUMNS = 14, 3
FIELDS = {"content": (2,), "title": (1,), "title+content": (1, 2)}


@source(NAME)
def dbpedia14(
    directory: DataDirectory,
    vocabulary: Size = 30_000,
    length: Count = 128,
    per_class: Index = 10_000,
    test_per_class: Index = 1_000,
    fields: Literal["content", "title", "title+content"] = "content",
) -> Pool:
    """DBpedia-14, topics of texts, 14 classes; 10,000 train and 1,000 test per class where there are so many.

    Texts are lower-cased, without non-ASCII characters and punctuation. `vocabulary` counts the most frequent words of
    the training texts with padding (0) and the unknown word (1); texts are cut or padded to `length` words. Of a class
    with more than `per_class` (`test_per_class`) texts so many are chosen, the same in every run; 0 takes all.
    `fields` is content, title or title+content.
    """
    train, test = (directory.find(NAME, f"{FOLDER}/{part}.csv") for part in ("train", "test"))
    _check_names(train.parent / "classes.txt")
    seen, unseen = _part(train, per_class, FIELDS[fields]), _part(test, test_per_class, FIELDS[fields])
    return replace(text_pool(NAME, seen, unseen, CLASSES, vocabulary, length), class_names=DBPEDIA14)


def _part(path: Path, limit: int, columns: tuple[int, ...]) -> tuple[Corpus, Ints]:
    """Return the chosen texts of a file and their classes: first all classes are read, then the chosen texts."""
    labels = np.array([_label(row) for row in read_rows(path, COLUMNS)], np.int64)
    counts = {label: limit or len(labels) for label in range(CLASSES)}
    chosen = keyed_choice(labels, counts, f"{NAME} {path.stem}")

    def texts() -> Iterator[str]:
        for row, wanted in zip(read_rows(path, COLUMNS), chosen, strict=True):
            if wanted:
                yield row.text(columns)

    return Corpus.read(texts()), labels[chosen]


def _label(row: Row) -> int:
    text = row.fields[0].strip()
    number = whole_number(text)
    if number is None or not 1 <= number <= CLASSES:
        raise row.wrong(f"the class must be a whole number from 1 to {CLASSES}, not {text[:40]!r}")
    return number - 1


def _check_names(path: Path) -> None:
    """Refuse the list of classes of another data set; without a list there is nothing to check."""
    if path.exists():
        names = sum(1 for _ in read_rows(path))
        if names != CLASSES:
            raise ConfigError(f"{path} names {names} classes instead of {CLASSES}; is this another data set?")
