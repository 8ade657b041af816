"""Texts by the tokenizer of a model in the place of words: rows of token numbers, -1 behind the end of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.storage.texts import Corpus, Script
from flatfed.hub_models.pretrained import loaded_tokenizer

AT_ONCE = 1_000
BEHIND = -1
"""What is behind the end of a text: no token, so that any tokenizer will do."""


@dataclass(frozen=True, eq=False)
class TokenCorpus(Corpus):
    """Texts, one after another, as numbers of a tokenizer that knows `size` of them."""

    size: int = 0
    reading: TextReading | None = None

    def alike(self) -> Callable[[Iterable[str]], Corpus]:
        """Return what takes in other texts: by the same tokenizer."""
        assert self.reading is not None
        return self.reading.read

    def vocabulary(self, size: int) -> dict[str, int]:
        """Return nothing: the numbers are the tokenizer's own."""
        return {}

    def numbers(self, vocabulary: Mapping[str, int]) -> int:
        """Return how many numbers there are."""
        return self.size

    def encode(self, vocabulary: Mapping[str, int], length: int) -> Tensor:
        """Return texts x `length` token numbers (int32), -1 behind the end of a text."""
        begins = np.concatenate([[0], self.ends[:-1]])
        rows = np.full((len(self), length), BEHIND, np.int32)
        there = np.arange(length) < (self.ends - begins)[:, None]
        rows[there] = self.flat
        return torch.from_numpy(rows)


@dataclass(frozen=True)
class TextReading:
    """How texts become numbers: words in a script, or the tokens of a model's folder, at most `length` of them."""

    script: Script = "ascii"
    tokenizer: str = ""
    length: int = 128

    def read(self, texts: Iterable[str]) -> Corpus:
        """Take in texts."""
        if not self.tokenizer:
            return Corpus.read(texts, self.script)
        tokenizer = loaded_tokenizer(self.tokenizer, None, download=False)
        flat, ends = self._tokens(tokenizer, iter(texts))
        return TokenCorpus(np.array(flat, np.int32), np.array(ends, np.int64), (), size=len(tokenizer), reading=self)

    def _tokens(self, tokenizer: Any, texts: Iterator[str]) -> tuple[list[int], list[int]]:
        flat: list[int] = []
        ends: list[int] = []
        while some := list(islice(texts, AT_ONCE)):
            for row in tokenizer(some, truncation=True, max_length=self.length)["input_ids"]:
                if not row:
                    raise ConfigError(f"the tokenizer {self.tokenizer} makes no token of a text without words")
                flat += row
                ends.append(len(flat))
        return flat, ends
