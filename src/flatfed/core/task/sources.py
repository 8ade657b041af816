"""From what a user has to structures: examples one by one or as columns, which entries are targets, what fills rows up.

- An example, or the columns of all, is `(input, target)`; `(first, second, ..., target)`, several inputs by position;
  or a dict of inputs by name with the targets under `labels` (or another name).
- Rows of different length are filled up by the pad rule; a collate function makes whole batches of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from flatfed.core.errors import ConfigError
from flatfed.core.task.losses import IGNORED
from flatfed.core.task.ragged import Ragged
from flatfed.core.task.structures import Batch, Structure, leaves, mapped

Collate = Callable[[list[Any]], Any]
Pad = float | Mapping[str, float] | None

LABELS = "labels"
FILLED_WITH = {"attention_mask": 0, "token_type_ids": 0}
"""What is behind the end of rows whose meaning is known by their name."""


@dataclass(frozen=True)
class Split:
    """How a structure becomes inputs and targets.

    Args:
        targets: the name of the targets in a dict.
        keeps: leave them among the inputs too: the model computes its loss itself.
        next_tokens: where a dict has none, each token is the target of those before it.
    """

    targets: str = LABELS
    keeps: bool = False
    next_tokens: bool = False

    def __call__(self, structure: Structure) -> Batch:
        """Return inputs and targets."""
        if isinstance(structure, Mapping):
            return self._of_named(dict(structure))
        if self.keeps:
            raise ConfigError("a model that computes its loss itself takes the targets by name; give examples as dicts")
        *inputs, targets = structure
        if len(inputs) == 1:
            return _as_inputs(inputs[0]), targets
        if not inputs:
            raise ConfigError("an example must have an input and a target; there is one thing only")
        return tuple(inputs), targets

    def _of_named(self, entries: dict[str, Any]) -> Batch:
        name = self._name(entries)
        if name is None:
            entries[self.targets] = _next_tokens(entries)
            name = self.targets
        targets = entries.pop(name)
        if self.keeps:
            entries[self.targets] = targets
        if not entries:
            raise ConfigError(f"examples must have inputs besides {name!r}")
        return entries, targets

    def name_of_targets(self, entries: Mapping[str, Any]) -> str | None:
        """Return which entry holds the targets, None where none does."""
        if self.targets in entries:
            return self.targets
        return "label" if self.targets == LABELS and "label" in entries else None

    def _name(self, entries: Mapping[str, Any]) -> str | None:
        """Return which entry holds the targets, None where they are made of the tokens."""
        name = self.name_of_targets(entries)
        if name is not None:
            return name
        if self.next_tokens and "input_ids" in entries:
            return None
        names = ", ".join(map(str, entries)) or "nothing"
        raise ConfigError(f"no {self.targets!r} among {names}; say Task(targets=...), the name of the targets")


def _as_inputs(inputs: Structure) -> Structure:
    """Return inputs as a model is called with them: by name a dict, by position a tuple."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    return tuple(inputs) if isinstance(inputs, list) else inputs


def _next_tokens(entries: Mapping[str, Any]) -> Any:
    """Return the tokens themselves as targets, those behind the end of a text ignored."""
    tokens, mask = entries["input_ids"], entries.get("attention_mask")
    if isinstance(tokens, Ragged):
        return Ragged.of(tokens.values, tokens.ends, IGNORED)
    return tokens if mask is None else tokens.masked_fill(mask == 0, IGNORED)


@dataclass(frozen=True)
class Reading:
    """How sources of examples are read.

    Args:
        collate: makes a batch of a list of examples.
        pad: what fills rows up to the longest of a batch: a number for all inputs, or numbers by name.
        split: which part of an example is its target.
    """

    collate: Collate | None = None
    pad: Pad = None
    split: Split = field(default_factory=Split)

    @property
    def is_plain(self) -> bool:
        """Whether batches are made as a DataLoader would make them."""
        return self.collate is None and self.pad is None

    def columns(self, examples: Sequence[Any]) -> Structure:
        """Return examples as columns: a tensor, or rows of different length, for each of their entries."""
        return self._columns(examples, "", False)

    def _columns(self, examples: Sequence[Any], name: str, is_target: bool) -> Structure:
        first = examples[0]
        if isinstance(first, Mapping):
            target = self.split.name_of_targets(first)
            return {entry: self._entries(examples, entry, is_target or entry == target) for entry in first}
        # An example itself is no row of numbers: its last entry is the target.
        if isinstance(first, tuple) or (isinstance(first, list) and not (name and _is_row(first))):
            last = len(first) - 1
            rows = zip(*examples, strict=True)
            return tuple(
                self._columns(row, str(i), is_target or (not name and i == last)) for i, row in enumerate(rows)
            )
        return self.column(list(examples), name, is_target)

    def _entries(self, examples: Sequence[Any], name: Any, is_target: bool) -> Structure:
        try:
            values = [example[name] for example in examples]
        except KeyError:
            raise ConfigError(f"some examples have {name!r} and others do not") from None
        return self._columns(values, str(name), is_target)

    def column(self, values: Any, name: str, is_target: bool) -> Tensor | Ragged:
        """Return one entry of all examples."""
        if isinstance(values, Tensor | Ragged):
            return values
        if isinstance(values, np.ndarray):
            return _tensor(values, name)
        if len(values) and (_differ(values) or self._may_differ(values, name, is_target)):
            return Ragged(values, self._fill(name, is_target))
        if len(values) and isinstance(values[0], list):
            return _tensor(values, name)
        collated = default_collate(values) if len(values) else torch.empty(0)
        if not isinstance(collated, Tensor):
            raise ConfigError(f"{name or 'an example'} holds {type(values[0]).__name__}; a model takes numbers")
        return collated

    def _may_differ(self, values: Any, name: str, is_target: bool) -> bool:
        """Say whether rows that are equally long here are to be filled up where other clients have longer ones."""
        is_named = isinstance(self.pad, Mapping) and (name in self.pad or name in FILLED_WITH or is_target)
        is_row = isinstance(values[0], list) or getattr(values[0], "ndim", 0) == 1
        return is_row and (is_named or isinstance(self.pad, int | float))

    def _fill(self, name: str, is_target: bool) -> float:
        """Return what fills rows of an entry up, or say that it must be given."""
        if isinstance(self.pad, Mapping) and name in self.pad:
            return self.pad[name]
        if is_target:
            return IGNORED
        if name in FILLED_WITH:
            return FILLED_WITH[name]
        if self.pad is None or isinstance(self.pad, Mapping):
            is_named = bool(name) and not name.isdigit()
            who, rule = (name, f"{{{name!r}: number}}") if is_named else ("the inputs", "number")
            raise ConfigError(
                f"{who} differ in length; say Task(pad={rule}) what fills them up, or give a collate function"
            )
        return self.pad

    def normalised(self, columns: Structure, name: str = "", is_target: bool = False) -> Structure:
        """Return the columns of a whole client with tensors or ragged rows in the place of arrays and lists."""
        if isinstance(columns, Mapping):
            target = self.split.name_of_targets(columns)
            return {key: self.normalised(x, str(key), is_target or key == target) for key, x in columns.items()}
        if isinstance(columns, tuple):
            last = len(columns) - 1
            return tuple(
                self.normalised(entry, str(i), is_target or (not name and i == last)) for i, entry in enumerate(columns)
            )
        if not isinstance(columns, Tensor | Ragged | np.ndarray | list):
            raise ConfigError(f"{name or 'an entry'} is a {type(columns).__name__}; tensors and lists are taken")
        return self.column(columns, name, is_target)


def _is_row(entry: list[Any]) -> bool:
    """Say whether a list is a row of numbers, and not a list of inputs and targets."""
    return not entry or isinstance(entry[0], int | float | list)


def _differ(rows: Sequence[Any]) -> bool:
    """Say whether rows are of different length."""
    if not isinstance(rows[0], list | Tensor | np.ndarray) or getattr(rows[0], "ndim", 1) == 0:
        return False
    return any(len(row) != len(rows[0]) for row in rows)


def _tensor(values: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{name or 'an entry'} is no array of numbers: {error}") from None


def check_counts(inputs: Structure, targets: Structure) -> None:
    """Refuse columns that are not equally long."""
    for structure in (inputs, targets):
        if not list(leaves(structure)):
            raise ConfigError("there are no tensors among the examples")
        mapped(_refuse_scalar, structure)
    counts = [len(leaf) for leaf in leaves(targets)] + [len(leaf) for leaf in leaves(inputs)]
    wrong = [count for count in counts if count != counts[0]]
    if wrong:
        raise ConfigError(f"{wrong[0]} inputs but {counts[0]} targets; they must be equally many")


def _refuse_scalar(leaf: Any) -> None:
    if isinstance(leaf, Tensor) and leaf.ndim == 0:
        raise ConfigError("a tensor without dimensions holds no examples")
