"""From rows with texts or images to the entries that a model takes: ids of tokens, masks, pixels, labels.

Rows keep their own length: batches are filled up to the longest of their texts, with a mask of what counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flatfed.core.errors import ConfigError
from flatfed.core.task.losses import IGNORED
from flatfed.hub_models.model_tasks import CAUSAL, IMAGES, REGRESSION, SEQ2SEQ, SEQUENCE, TOKENS, Kind
from flatfed.hub_models.pretrained import base_of
from flatfed.hub_models.tables import Columns, count_of

IDS, MASK, PIXELS, LABELS, DECODER = "input_ids", "attention_mask", "pixel_values", "labels", "decoder_input_ids"
TEXTS = (("text",), ("sentence",), ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question", "context"))
WORDS, PICTURES, TARGET_TEXTS = ("tokens", "words"), ("image", "img"), ("target", "target_text", "summary")
TARGETS = (LABELS, "label", "tags", "ner_tags")
LONGEST = 100_000
"""Tokenizers that know no longest text name a number beyond this one."""


@dataclass(frozen=True)
class Encoder:
    """Makes the columns that a model takes.

    Args:
        model: the model, for what it takes and its names of classes.
        kind: what it learns.
        tokenizer: turns texts into ids, or images into pixels; None where rows hold these already.
        text: the column of texts, or two of them; found by usual names where it is not given.
        target_text: the column of the texts that a seq2seq model writes.
        label: the column of labels.
        length: the most tokens of a text.
    """

    model: nn.Module
    kind: Kind
    tokenizer: Any = None
    text: str | Sequence[str] | None = None
    target_text: str | None = None
    label: str | None = None
    length: int | None = None

    def __call__(self, columns: Columns, whose: str) -> Columns:
        """Return the inputs of all rows by name, with their labels."""
        try:
            inputs = self._inputs(columns)
            labels = self._labels(columns, inputs)
        except ConfigError as error:
            raise ConfigError(f"{whose}: {error}") from None
        entries = {name: entry for name, entry in inputs.items() if name in self._taken}
        if labels is not None:
            entries[LABELS] = labels
            if self.kind.id == SEQ2SEQ and DECODER not in entries:
                entries[DECODER] = [self._shifted(row) for row in labels]
        return entries

    @property
    def pad(self) -> dict[str, float]:
        """What fills rows up, by name."""
        return {IDS: self.pad_id, DECODER: self.pad_id, MASK: 0, "token_type_ids": 0, LABELS: IGNORED}

    @property
    def pad_id(self) -> int:
        """The token behind the end of a text: it is masked, so that any will do where none is named."""
        config = self._config
        ids = (getattr(self.tokenizer, "pad_token_id", None), getattr(config, "pad_token_id", None))
        return next((int(id) for id in ids if isinstance(id, int) and id >= 0), 0)

    @property
    def _config(self) -> Any:
        return getattr(base_of(self.model), "config", None)

    @property
    def _taken(self) -> set[str]:
        """The names of what the model takes."""
        return set(inspect.signature(base_of(self.model).forward).parameters) - {LABELS}

    # --- inputs -------------------------------------------------------------------------------------------------

    def _inputs(self, columns: Columns) -> Columns:
        if IDS in columns:
            return _masked(columns)
        if PIXELS in columns:
            return {**columns, PIXELS: _stacked(columns[PIXELS])}
        if self.kind.id == IMAGES:
            return {PIXELS: self._pixels(columns)}
        if self.kind.id == TOKENS and self.text is None and any(name in columns for name in WORDS):
            return self._words(columns)
        return self._tokens(*(columns[name] for name in self._text_columns(columns)))

    def _text_columns(self, columns: Columns) -> Sequence[str]:
        if self.text is not None:
            names = (self.text,) if isinstance(self.text, str) else tuple(self.text)
            missing = [name for name in names if name not in columns]
            if missing or len(names) not in (1, 2):
                raise ConfigError(f"text={self.text!r}: there are the columns {_listed(columns)}; name one or two")
            return names
        for usual in TEXTS:
            if all(name in columns for name in usual):
                return usual
        texts = [name for name, entries in columns.items() if _are_texts(entries) and name not in TARGETS]
        if len(texts) == 1:
            return texts
        raise ConfigError(f"no column is called text or {IDS} among {_listed(columns)}; say text=, the name of it")

    def _tokens(self, *texts: Any) -> Columns:
        encoded = self._called(*map(list, texts), truncation=True, max_length=self._most, padding=False)
        # A model without a mask would look at what fills rows up.
        return _masked({name: list(rows) for name, rows in encoded.items()})

    def _words(self, columns: Columns) -> Columns:
        """Return tokens of texts that are lists of words, with the place of the word that each begins."""
        words = next(columns[name] for name in WORDS if name in columns)
        encoded = self._called(
            list(words), is_split_into_words=True, truncation=True, max_length=self._most, padding=False
        )
        begins = [_begins(encoded.word_ids(row)) for row in range(len(words))]
        return _masked({name: list(rows) for name, rows in encoded.items()}) | {"begins": begins}

    def _called(self, *texts: Any, **how: Any) -> Any:
        if self.tokenizer is None:
            raise ConfigError(f"texts need a tokenizer; pass one, or columns with {IDS}")
        return self.tokenizer(*texts, **how)

    @property
    def _most(self) -> int:
        own = getattr(self.tokenizer, "model_max_length", None)
        places = getattr(self._config, "max_position_embeddings", None)
        given = [size for size in (self.length, own, places) if isinstance(size, int) and 0 < size < LONGEST]
        return min(given, default=512)

    def _pixels(self, columns: Columns) -> Tensor:
        names = [self.text] if isinstance(self.text, str) else [name for name in PICTURES if name in columns]
        if not names or names[0] not in columns:
            raise ConfigError(f"no column is called image or {PIXELS} among {_listed(columns)}; say text=, its name")
        if self.tokenizer is None:
            raise ConfigError(f"images need a processor; pass one, or columns with {PIXELS}")
        return _stacked(self.tokenizer(list(columns[names[0]]), return_tensors="pt")[PIXELS])

    # --- labels -------------------------------------------------------------------------------------------------

    def _labels(self, columns: Columns, inputs: Columns) -> Any:
        name = self._label_column(columns)
        if self.kind.id == SEQ2SEQ:
            return self._target_tokens(columns, name)
        if name is None:
            if self.kind.id in (SEQUENCE, TOKENS, IMAGES, REGRESSION):
                raise ConfigError(f"no column is called {LABELS} among {_listed(columns)}; say label=, the name of it")
            return None  # each token is the target of those before it
        entries = columns[name]
        if self.kind.id == REGRESSION:
            return torch.as_tensor(entries, dtype=torch.float32).reshape(-1, 1)
        if "begins" in inputs:
            return [self._of_words(row, begins) for row, begins in zip(entries, inputs["begins"], strict=True)]
        return entries if isinstance(entries, Tensor) else [self._numbers(entry) for entry in entries]

    def _label_column(self, columns: Columns) -> str | None:
        if self.label is not None and self.label not in columns:
            raise ConfigError(f"label={self.label!r}: there are the columns {_listed(columns)}")
        # The class of a text is no target of a model that writes texts.
        usual = (LABELS,) if self.kind.id in (CAUSAL, SEQ2SEQ) else TARGETS
        return self.label or next((name for name in usual if name in columns), None)

    def _numbers(self, entry: Any) -> Any:
        """Return labels as numbers; names of classes are the model's own."""
        if isinstance(entry, list | tuple):
            return [self._numbers(one) for one in entry]
        if not isinstance(entry, str):
            return int(entry)
        known: Mapping[str, int] = getattr(self._config, "label2id", None) or {}
        if entry not in known:
            raise ConfigError(f"the model knows no class {entry!r}; its classes are {', '.join(map(str, known))}")
        return int(known[entry])

    def _of_words(self, labels: Sequence[Any], begins: Sequence[int | None]) -> list[int]:
        """Return the label of a word at its first token; the others do not count."""
        return [IGNORED if word is None else self._numbers(labels[word]) for word in begins]

    def _target_tokens(self, columns: Columns, name: str | None) -> list[list[int]]:
        column = self.target_text or next((usual for usual in TARGET_TEXTS if usual in columns), None)
        if column is not None and column in columns:
            encoded = self._called(text_target=list(columns[column]), truncation=True, max_length=self._most)
            return [list(row) for row in encoded[IDS]]
        if name is None:
            raise ConfigError(f"no column is called target or {LABELS} among {_listed(columns)}; say target_text=")
        return [list(map(int, row)) for row in columns[name]]

    def _shifted(self, labels: Sequence[int]) -> list[int]:
        """Return what the decoder is given: the token that begins a text, then the labels but the last."""
        begin = getattr(self._config, "decoder_start_token_id", None)
        if begin is None:
            begin = self.pad_id
        return [int(begin), *(label if label >= 0 else self.pad_id for label in labels[:-1])]


def _masked(columns: Columns) -> Columns:
    """Return columns with a mask of the tokens that count: all, where nothing else is said."""
    if MASK in columns:
        return columns
    ids = columns[IDS]
    mask = torch.ones_like(ids) if isinstance(ids, Tensor) else [[1] * len(row) for row in ids]
    return {**columns, MASK: mask}


def _begins(words: Sequence[int | None]) -> list[int | None]:
    """Return for each token the word that it begins, None within a word and for tokens of no word."""
    return [None if word == before else word for before, word in zip([None, *words], words, strict=False)]


def _stacked(pixels: Any) -> Tensor:
    return pixels if isinstance(pixels, Tensor) else torch.stack([torch.as_tensor(image) for image in pixels])


def _are_texts(entries: Any) -> bool:
    return count_of({"": entries}) > 0 and isinstance(entries[0], str)


def _listed(columns: Columns) -> str:
    return ", ".join(columns) or "none"
