"""From texts to tensors: words, a vocabulary of the training texts, rows of word numbers of one length."""

from __future__ import annotations

import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.configuration.checking import Count, Range, checked
from flatfed.core.randomness import key
from flatfed.core.task.examples import TensorExamples
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

    @classmethod
    def read(cls, texts: Iterable[str], script: Script = "ascii") -> Corpus:
        """Take in texts one at a time."""
        numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        # Arrays of plain numbers: lists of Python's would take several times the memory.
        flat, ends = array("i"), array("q")
        for text in texts:
            flat.extend([numbers[word] for word in words(text, script)])
            ends.append(len(flat))
        return cls(np.frombuffer(flat, np.int32), np.frombuffer(ends, np.int64), list(numbers))

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
