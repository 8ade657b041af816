"""From texts to tensors: words, a vocabulary of the training texts, rows of word numbers of one length."""

from __future__ import annotations

import functools
import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.configuration.checking import Count, Range, checked
from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.core.randomness import key
from flatfed.core.task.examples import TensorExamples
from flatfed.data.formats.files import read_text
from flatfed.data.formats.texts import read_rows, whole_number
from flatfed.data.storage.new_inputs import FileReading, NewInputs, of_tensor
from flatfed.data.storage.pool import Pool

Script = Literal["ascii", "unicode"]
Ints = npt.NDArray[np.int64]

PADDING = 0
"""The number behind the end of a text."""
UNKNOWN = 1
"""The number of every word that is not in the vocabulary."""
RESERVED = 2

Size = Annotated[int, Range(low=RESERVED + 1)]
"""How many numbers of words there are, the reserved ones among them."""

TABLES = (".csv", ".tsv")
CHUNK = 2**15
"""Texts that are encoded at a time."""

_ASCII, _UNICODE = re.compile(r"[a-z0-9]+"), re.compile(r"[^\W_]+")


def words(text: str, script: Script = "ascii") -> list[str]:
    """Return a text's words: lower case, punctuation as space.

    `ascii` drops every other character (`São` is `so`) before it looks for letters and digits; `unicode` keeps the
    letters and digits of all scripts.
    """
    if script == "unicode":
        return _UNICODE.findall(text.casefold())
    return _ASCII.findall(text.lower().encode("ascii", "ignore").decode("ascii"))


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts, one after another, as numbers of the words in `known`; `ends[i]` is where text i ends."""

    flat: npt.NDArray[np.int32]
    ends: Ints
    known: Sequence[str]
    script: Script = "ascii"

    @classmethod
    def read(cls, texts: Iterable[str], script: Script = "ascii") -> Corpus:
        """Take in texts one at a time."""
        numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        # Arrays of plain numbers: lists of Python's would take several times the memory.
        flat, ends = array("i"), array("q")
        for text in texts:
            flat.extend([numbers[word] for word in words(text, script)])
            ends.append(len(flat))
        return cls(np.frombuffer(flat, np.int32), np.frombuffer(ends, np.int64), list(numbers), script)

    def alike(self) -> Callable[[Iterable[str]], Corpus]:
        """Return what takes in other texts as these were taken in."""
        return functools.partial(Corpus.read, script=self.script)

    def __len__(self) -> int:
        return len(self.ends)

    def vocabulary(self, size: int) -> dict[str, int]:
        """Return the number of each of the most frequent words, ties by word; `size` counts the two reserved ones."""
        counts = np.bincount(self.flat, minlength=len(self.known))
        ranked = sorted(range(len(self.known)), key=lambda number: (-counts[number], self.known[number]))
        return {self.known[number]: place for place, number in enumerate(ranked[: size - RESERVED], RESERVED)}

    def numbers(self, vocabulary: Mapping[str, int]) -> int:
        """Return how many numbers of words there are, the reserved ones among them."""
        return len(vocabulary) + RESERVED

    def encode(self, vocabulary: Mapping[str, int], length: int) -> Tensor:
        """Return texts x `length` word numbers (int32): longer texts are cut, shorter ones padded at their end.

        A text without any word is one unknown word.
        """
        number = np.array([vocabulary.get(word, UNKNOWN) for word in self.known] or [UNKNOWN], np.int32)
        begins = np.concatenate([[0], self.ends[:-1]])
        sizes, column = np.minimum(self.ends - begins, length), np.arange(length)
        rows = np.full((len(self), length), PADDING, np.int32)
        # In chunks, because the places take eight bytes for each word.
        for first in range(0, len(self), CHUNK):
            some = slice(first, first + CHUNK)
            there = column < sizes[some, None]
            rows[some][there] = number[self.flat[(begins[some, None] + column)[there]]]
        rows[sizes == 0, 0] = UNKNOWN
        return torch.from_numpy(rows)


def text_pool(
    name: str,
    train: tuple[Corpus, npt.ArrayLike],
    test: tuple[Corpus, npt.ArrayLike],
    classes: int,
    vocabulary: int,
    length: int,
    groups: Mapping[str, npt.ArrayLike] | None = None,
    class_names: Sequence[str] = (),
) -> Pool:
    """Return the pool of a text classification; the vocabulary comes from the training texts alone."""
    check_sizes(name, vocabulary, length)
    known = train[0].vocabulary(vocabulary)
    parts = [(corpus.encode(known, length), _numbers(labels)) for corpus, labels in (train, test)]
    return Pool(
        name=name,
        train=TensorExamples(*parts[0]),
        labels=parts[0][1],
        test=TensorExamples(*parts[1]),
        classes=classes,
        facts={"vocabulary": train[0].numbers(known), "length": length},
        default_model="textcnn",
        groups={group: _numbers(numbers) for group, numbers in (groups or {}).items()},
        class_names=class_names,
        reader=TextReader(known, length, train[0].alike()),
    )


def check_sizes(name: str, vocabulary: int, length: int) -> None:
    """Refuse a vocabulary or a length that is no whole number or too small."""
    checked(Size, vocabulary, f"{name}: vocabulary")
    checked(Count, length, f"{name}: length")


def keyed_choice(labels: Ints, counts: Mapping[int, int], purpose: str) -> npt.NDArray[np.bool_]:
    """Return which rows are chosen: of each class the number that `counts` says, those with the smallest keys.

    Keys (a hash) instead of a generator: the choice is the same under every seed and every version of NumPy.
    """
    chosen = np.zeros(len(labels), dtype=bool)
    for label, count in counts.items():
        members = np.flatnonzero(labels == label)
        if count < len(members):
            keys = np.array([key(0, purpose, int(i)) for i in members])
            members = members[np.argsort(keys)][:count]
        chosen[members] = True
    return chosen


def _numbers(values: npt.ArrayLike) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.int64))


# --- new texts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TextReader:
    """Reads texts: each line of a file, each row of a CSV file, or each file as a whole.

    Args:
        vocabulary: the number of each word of the training texts.
        length: words of a text that count.
        read: takes in texts, as words or as tokens.
        columns: of a CSV file, by name or number, those that hold the text.
        delimiter: between columns.
        header: whether the first row of a CSV file holds names, where columns are numbers.
    """

    vocabulary: Mapping[str, int]
    length: int
    read: Callable[[Iterable[str]], Corpus]
    columns: tuple[str, ...] = ("text",)
    delimiter: str = ","
    header: bool | None = None

    def open(self, files: Sequence[Path], how: FileReading) -> NewInputs:
        """Return the texts as numbers of words."""
        pairs = [pair for file in files for pair in self._texts(file, how)]
        names, texts = zip(*pairs, strict=True) if pairs else ((), ())
        return of_tensor(names, self.read(texts).encode(self.vocabulary, self.length))

    def _texts(self, file: Path, how: FileReading) -> list[tuple[str, str]]:
        """Return what each text of a file is called, and the text."""
        if how.whole:
            return [(str(file), _filled(file, read_text(file)))]
        if file.suffix.lower() in TABLES:
            return self._cells(file, how.column)
        lines = _filled(file, read_text(file)).splitlines()
        return [(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]

    def _cells(self, file: Path, column: str) -> list[tuple[str, str]]:
        columns = (column,) if column else self.columns
        rows = list(read_rows(file, delimiter=self.delimiter))
        has_names = bool(self.header) or any(whole_number(name) is None for name in columns)
        heads = [field.strip() for field in rows[0].fields]
        places = tuple(_place(file, name, heads, has_names) for name in columns)
        return [(f"{file}, line {row.line}", row.text(places)) for row in rows[1 if has_names else 0 :]]


def _filled(file: Path, text: str) -> str:
    if not text.strip():
        raise ConfigError(f"{file} holds no text")
    return text


def _place(file: Path, name: str, heads: Sequence[str], has_names: bool) -> int:
    """Return where a column stands."""
    if has_names and name in heads:
        return heads.index(name)
    number = whole_number(name)
    if number is None or number >= len(heads):
        known = ", ".join(heads[:8]) if has_names else f"0 to {len(heads) - 1}"
        raise ConfigError(
            f"{file} has no column {name!r} ({known}); name the one of texts with {PARAMETER}", parameter="column"
        )
    return number
