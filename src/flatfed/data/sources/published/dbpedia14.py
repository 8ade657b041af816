"""DBpedia-14: the topics of Wikipedia's subjects (X. Zhang, J. Zhao, Y. LeCun 2015)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import Expected, Official, source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.texts import Row, read_rows, whole_number
from flatfed.data.storage.pool import Pool
from flatfed.data.storage.texts import Corpus, Ints, Size, keyed_choice, text_pool
from flatfed.data.storage.tokens import TextReading

NAME, FOLDER = "dbpedia14", "dbpedia_csv"
CLASS_NAMES = (
    *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building"),
    *("NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
)
CLASSES = len(CLASS_NAMES)
COLUMNS = 3
FIELDS = {"content": (2,), "title": (1,), "title+content": (1, 2)}


@source(
    NAME,
    # Fetched by hand: there is no published checksum.
    official=Official("https://github.com/zhangxiangxiao/Crepe"),
    expected=Expected(
        train=560_000,
        test=70_000,
        classes=CLASSES,
        limits={"train": "per_class", "test": "test_per_class"},
        subsets=True,
    ),
)
def dbpedia14(
    directory: DataDirectory,
    vocabulary: Size = 30_000,
    length: Count = 128,
    per_class: Index = 10_000,
    test_per_class: Index = 1_000,
    fields: Literal["content", "title", "title+content"] = "content",
    tokenizer: str = "",
) -> Pool:
    """DBpedia-14, topics of texts, 14 classes; 10,000 train and 1,000 test per class where there are enough.

    Texts are lower-cased, without non-ASCII characters and punctuation. `vocabulary` counts the most frequent words of
    the training texts with padding (0) and the unknown word (1); texts are cut or padded to `length` words. Of a class
    with more than `per_class` (`test_per_class`) texts that number is chosen, the same in every run; 0 takes all.
    `fields` is content, title or title+content. `tokenizer` is a folder with the tokenizer of a model (`hf:FOLDER`
    brings its own): its tokens take the place of words.
    """
    train_file = directory.find(NAME, f"{FOLDER}/train.csv")
    test_file = directory.find(NAME, f"{FOLDER}/test.csv")
    _check_names(train_file.parent / "classes.txt")
    reading = TextReading(tokenizer=tokenizer, length=length)
    train = _part(train_file, per_class, FIELDS[fields], reading)
    test = _part(test_file, test_per_class, FIELDS[fields], reading)
    return replace(text_pool(NAME, train, test, CLASSES, vocabulary, length), class_names=CLASS_NAMES)


def _part(path: Path, limit: int, columns: tuple[int, ...], reading: TextReading) -> tuple[Corpus, Ints]:
    """Return the chosen texts of a file and their classes: first all classes are read, then the chosen texts."""
    # Two passes over the file, so that texts that are not chosen are never kept in memory.
    labels = np.array([_label(row) for row in read_rows(path, COLUMNS)], np.int64)
    counts = dict.fromkeys(range(CLASSES), limit or len(labels))
    chosen = keyed_choice(labels, counts, f"{NAME} {path.stem}")
    rows = itertools.compress(read_rows(path, COLUMNS), chosen)
    return reading.read(row.text(columns) for row in rows), labels[chosen]


def _label(row: Row) -> int:
    text = row.fields[0].strip()
    number = whole_number(text)
    if number is None or not 1 <= number <= CLASSES:
        raise row.wrong(f"the class must be a whole number from 1 to {CLASSES}, not {text[:40]!r}")
    # The files count from 1.
    return number - 1


def _check_names(path: Path) -> None:
    """Refuse the list of classes of another data set; without a list there is nothing to check."""
    if not path.exists():
        return
    names = len(list(read_rows(path)))
    if names != CLASSES:
        raise ConfigError(f"{path} names {names} classes instead of {CLASSES}; is this another data set?")
