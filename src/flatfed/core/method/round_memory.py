"""Where the vectors of a round wait until they are used: replies, new states, models that are shown.

They are read through a mapping by name. Where they lie is the memory's choice: what is beyond its bound is read when
it is asked for, and let go with the tensor. A mapping that nobody holds any more takes no room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from torch import Tensor

from flatfed.core.errors import FlatfedError

StoredTensors = Mapping[str, Tensor]
"""Tensors by name, to be read: a change in place would be lost, or be read by others."""


class RoundMemory(Protocol):
    """Keeps tensors as long as somebody holds what it returns for them."""

    def keep(self, tensors: Mapping[str, Tensor]) -> StoredTensors:
        """Take these tensors, which nobody else changes, and return how they are read."""
        ...


class HeldTensors(Mapping[str, Tensor]):
    """Tensors in memory; one that was changed in place since is an error.

    Elsewhere such a change would be lost silently, and the results would depend on the bound of the memory.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        # torch counts every change in place.
        self._tensors = {name: (tensor, tensor._version) for name, tensor in tensors.items()}

    def __getitem__(self, name: str) -> Tensor:
        tensor, version = self._tensors[name]
        if tensor._version != version:
            raise FlatfedError(f"the vector {name!r} of a reply was changed in place; copy it first")
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class MainMemory:
    """Keeps everything in memory, without a bound."""

    def keep(self, tensors: Mapping[str, Tensor]) -> StoredTensors:
        """Hold the tensors themselves."""
        return HeldTensors(tensors)
