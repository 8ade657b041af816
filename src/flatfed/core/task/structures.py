"""Structures of tensors: what a model takes and returns, and what targets are made of.

A structure is a tensor, or a tuple, list, mapping or dataclass of structures. A batch is a pair of structures (inputs,
targets) whose tensors have the examples as their first dimension; the pair of two tensors is the plain case. Examples
that are kept may have `Ragged` rows in the place of a tensor; a batch has tensors only.

A model is called with its inputs: `model(x)` for a tensor, `model(*inputs)` for a tuple, `model(**inputs)` for a dict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flatfed.core.task.ragged import Ragged

Structure = Any
Batch = tuple[Structure, Structure]


def call(model: Callable[..., Structure], inputs: Structure) -> Structure:
    """Return the outputs of a model, or of another way through it, for a batch's inputs."""
    if isinstance(inputs, Tensor):
        return model(inputs)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs)


def mapped(function: Callable[[Any], Any], structure: Structure) -> Structure:
    """Return the structure with `function(tensor)` in the place of each tensor; other things stay as they are."""
    if isinstance(structure, Tensor | Ragged):
        return function(structure)
    if isinstance(structure, tuple | list):
        return _like(structure, [mapped(function, entry) for entry in structure])
    if isinstance(structure, Mapping):
        return _like_mapping(structure, {name: mapped(function, entry) for name, entry in structure.items()})
    if _is_record(structure):
        fields = {field.name: getattr(structure, field.name) for field in dataclasses.fields(structure)}
        return dataclasses.replace(structure, **{name: mapped(function, entry) for name, entry in fields.items()})
    return structure


def _like(structure: Any, entries: list[Any]) -> Any:
    # A named tuple takes its entries one by one.
    return type(structure)(*entries) if hasattr(structure, "_fields") else type(structure)(entries)


def _like_mapping(structure: Mapping[Any, Any], entries: dict[Any, Any]) -> Any:
    # By name: a record of outputs that is a mapping too has its fields as arguments.
    return entries if type(structure) is dict else type(structure)(**entries)


def _is_record(structure: Any) -> bool:
    return dataclasses.is_dataclass(structure) and not isinstance(structure, type)


def leaves(structure: Structure) -> Iterator[Any]:
    """Yield the tensors of a structure, in its order."""
    return (end for end in _ends(structure) if isinstance(end, Tensor | Ragged))


def others(structure: Structure) -> Iterator[Any]:
    """Yield what a structure holds besides tensors, in its order: a batch's own width, say."""
    return (end for end in _ends(structure) if not isinstance(end, Tensor | Ragged))


def _ends(structure: Structure) -> Iterator[Any]:
    """Yield all that a structure holds, in its order."""
    if isinstance(structure, tuple | list):
        for entry in structure:
            yield from _ends(entry)
    elif isinstance(structure, Mapping):
        for entry in structure.values():
            yield from _ends(entry)
    elif _is_record(structure):
        for field in dataclasses.fields(structure):
            yield from _ends(getattr(structure, field.name))
    else:
        yield structure


def count(structure: Structure) -> int:
    """Return how many examples there are."""
    return len(next(leaves(structure)))


def select(structure: Structure, indices: Tensor) -> Structure:
    """Return a batch of kept examples, rows of different length filled up."""
    if isinstance(structure, Tensor):
        return structure.index_select(0, indices)
    return dense(taken(structure, indices))


def taken(structure: Structure, indices: Tensor) -> Structure:
    """Return some of the kept examples, rows of different length as they are."""

    def rows(leaf: Any) -> Any:
        return leaf.take(indices) if isinstance(leaf, Ragged) else leaf.index_select(0, indices)

    return mapped(rows, structure)


def dense(structure: Structure) -> Structure:
    """Return kept examples as a batch: rows of different length are filled up."""
    return mapped(lambda leaf: leaf.dense() if isinstance(leaf, Ragged) else leaf, structure)


def part(structure: Structure, number: int, parts: int) -> Structure:
    """Return one of the equal parts that the examples of a batch are made of."""

    def own(leaf: Tensor) -> Tensor:
        size = leaf.shape[0] // parts
        return leaf[number * size : (number + 1) * size]

    return mapped(own, structure)


def joined(structures: Sequence[Structure]) -> Structure:
    """Return the examples of several structures of one form, one after the other."""
    if isinstance(structures[0], Tensor) and all(isinstance(entry, Tensor) for entry in structures):
        return torch.cat(list(structures))
    columns = zip(*(list(leaves(structure)) for structure in structures), strict=True)
    together = iter([_joined_leaves(column) for column in columns])
    return mapped(lambda leaf: next(together), structures[0])


def _joined_leaves(column: Sequence[Any]) -> Any:
    if any(isinstance(leaf, Ragged) for leaf in column):
        return Ragged.joined(column)
    return torch.cat(list(column))


def form(structure: Structure) -> tuple[Any, ...]:
    """Return shapes and types of a batch's tensors, and what else it holds: those of one form can be put together."""
    if isinstance(structure, Tensor):
        return structure.shape, structure.dtype
    names = tuple(structure) if isinstance(structure, Mapping) else ()
    return names, *((leaf.shape, leaf.dtype) for leaf in leaves(structure)), *map(repr, others(structure))
