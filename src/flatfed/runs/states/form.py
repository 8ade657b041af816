"""The form of a store's states: names, types and shapes, which all its clients share, and so the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flatfed.core.configuration.checking import fault
from flatfed.core.errors import CheckpointError
from flatfed.core.method.state import State

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}


@dataclass(frozen=True)
class FormEntry:
    """One named tensor of a state."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def empty(self) -> Tensor:
        """Return a tensor of this form, whose content is still to come."""
        return torch.empty(self.shape, dtype=self.dtype)


@dataclass(frozen=True)
class StateForm:
    """What the states of a store have in common."""

    entries: tuple[FormEntry, ...]

    @classmethod
    def of(cls, state: State) -> StateForm:
        """Return the form of a state."""
        return cls._ordered(FormEntry(name, t.dtype, tuple(t.shape)) for name, t in state.tensors().items())

    @classmethod
    def _ordered(cls, entries: Iterable[FormEntry]) -> StateForm:
        # The widest types first: then each tensor begins at a multiple of its type's size, without gaps.
        return cls(tuple(sorted(entries, key=lambda entry: (-entry.dtype.itemsize, entry.name))))

    @cached_property
    def size(self) -> int:
        """The bytes of one state; at least one, so that places have a length."""
        return max(1, sum(entry.nbytes for entry in self.entries))

    def views(self, state: State) -> list[memoryview]:
        """Return the bytes of a state, tensor by tensor, without a copy where that can be had."""
        if StateForm.of(state) != self:
            raise CheckpointError(f"a client's state is {StateForm.of(state)}, and those before it were {self}")
        return self._views(state)

    def _views(self, state: State) -> list[memoryview]:
        tensors = state.tensors()
        views = [bytes_of(tensors[entry.name]) for entry in self.entries if entry.nbytes]
        return views or [memoryview(bytearray(self.size))]

    def empty(self) -> tuple[State, list[memoryview]]:
        """Return a state to be filled, each tensor with memory of its own, and the bytes that fill it."""
        # torch's own memory, because that is aligned, and the bits of some sums depend on it.
        state = State({entry.name: entry.empty() for entry in self.entries})
        return state, self._views(state)

    def place_of(self, name: str) -> tuple[FormEntry, int]:
        """Return an entry, and how many bytes of a state stand before it."""
        first = 0
        for entry in self.entries:
            if entry.name == name:
                return entry, first
            first += entry.nbytes
        raise KeyError(name)

    def __str__(self) -> str:
        return ", ".join(f"{e.name} {'x'.join(map(str, e.shape)) or 'scalar'}" for e in self.entries) or "nothing"

    def to_json(self) -> list[list[Any]]:
        """Return the form as a manifest has it."""
        names = {dtype: name for name, dtype in DTYPES.items()}
        return [[entry.name, names[entry.dtype], list(entry.shape)] for entry in self.entries]

    @classmethod
    def from_json(cls, file: Path, entries: Sequence[Sequence[Any]]) -> StateForm:
        """Undo `to_json`; what is no form is an error that names the file."""
        for entry in entries:
            if not _is_entry(entry):
                raise CheckpointError(f"{file}: {str(entry)[:80]} is no name, type and shape of a client's state")
        return cls._ordered(FormEntry(name, DTYPES[dtype], tuple(shape)) for name, dtype, shape in entries)


def _is_entry(entry: Sequence[Any]) -> bool:
    if len(entry) != 3 or not isinstance(entry[0], str) or fault(entry[0]) or entry[1] not in list(DTYPES):
        return False
    shape = entry[2]
    return isinstance(shape, list) and all(type(length) is int and length >= 0 for length in shape)


def bytes_of(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor, which are its own where it lies in main memory in one piece."""
    # As bytes before NumPy sees it, which does not know every type.
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return flat.numpy().data
