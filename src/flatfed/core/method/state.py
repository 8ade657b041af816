"""Declared state: named vectors and scalars of the server, of an average, and of every client that took part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.core.method.round_memory import RoundMemory, StoredTensors


@dataclass(frozen=True)
class Slot:
    """One declared entry: its kind, its first value and, for `window`, how many entries it has."""

    kind: Literal["vector", "scalar", "window", "per tensor"]
    start: float | Literal["model"] = 0.0
    rows: int = 0
    of: Literal["scalar", "vector"] = "scalar"

    def allocate(self, model: Tensor, tensors: int = 1) -> Tensor:
        """Return the entry's first value, for a model of this size and type, which has n shared tensors."""
        if self.kind == "scalar":
            # Whatever the model's type: methods compute with their numbers in Python, which is in float64.
            return torch.tensor(self.start, dtype=torch.float64)
        if self.kind == "window":
            return self._empty_window(model)
        if self.start == "model":
            return model.clone()
        if abs(self.start) > torch.finfo(model.dtype).max:
            raise ConfigError(f"a vector that begins at {self.start:g} is beyond the numbers of {model.dtype}")
        return model.new_full((tensors,) if self.kind == "per tensor" else model.shape, self.start)

    def _empty_window(self, model: Tensor) -> Tensor:
        if self.of == "vector":
            return model.new_zeros(self.rows, *model.shape)
        return torch.zeros(self.rows, dtype=torch.float64)


Slots = dict[str, Slot]


def vector(start: float | Literal["model"] = 0.0) -> Slot:
    """Declare one model-sized vector: `start` everywhere at first, or a copy of the initial model."""
    return Slot("vector", start=start)


def per_tensor(start: float = 0.0) -> Slot:
    """Declare one number for each tensor of the model that is shared, in the model's order and type."""
    return Slot("per tensor", start=start)


def scalar(value: float = 0.0) -> Slot:
    """Declare one number."""
    return Slot("scalar", start=value)


def window(rows: int, of: Literal["scalar", "vector"] = "scalar") -> Slot:
    """Declare the last `rows` numbers or vectors of something, as one tensor with a row each."""
    return Slot("window", rows=rows, of=of)


class State:
    """Declared entries by name: `state.sigma` reads one, `state.sigma = v` copies `v` into it.

    Scalars are zero-dimensional tensors, so that `float(state.alpha)` and `state.alpha = 0.3` both work.
    """

    __slots__ = ("_entries",)
    _entries: dict[str, Tensor]

    def __init__(self, entries: Mapping[str, Tensor]) -> None:
        object.__setattr__(self, "_entries", dict(entries))

    @classmethod
    def declared(cls, slots: Slots, model: Tensor, tensors: int = 1) -> State:
        """Return a fresh state for a model of this size and type, which has n shared tensors."""
        return cls({name: slot.allocate(model, tensors) for name, slot in slots.items()})

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self._entries[name]
        except KeyError:
            raise AttributeError(f"no state {name!r} is declared, only {sorted(self._entries)}") from None

    def __setattr__(self, name: str, value: Tensor | float) -> None:
        entry = getattr(self, name)
        # `state.c += v` has changed the entry already, and then assigns it to itself.
        if value is entry:
            return
        if not isinstance(value, Tensor):
            entry.fill_(value)
            return
        if value.shape != entry.shape:
            raise FlatfedError(f"state {name!r} has shape {tuple(entry.shape)}, not {tuple(value.shape)}")
        # Into the memory that is there: it may be that of a store, in a mapped file.
        entry.copy_(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def tensors(self) -> dict[str, Tensor]:
        """Return the entries themselves, by name."""
        return dict(self._entries)

    def to(self, device: torch.device) -> State:
        """Return the state with its vectors on a device (numbers stay in main memory); itself where they are there."""
        vectors = {name: entry for name, entry in self._entries.items() if entry.ndim}
        if all(vector.device.type == device.type for vector in vectors.values()):
            return self
        moved = {name: vector.to(device) for name, vector in vectors.items()}
        return State(self._entries | moved)

    def copy(self) -> State:
        """Return an independent copy."""
        return State({name: entry.clone() for name, entry in self._entries.items()})


class ClientStore(Protocol):
    """State of the clients that have taken part."""

    def read(self, client: int) -> State:
        """Return a copy of a client's state; a fresh one if it has never taken part."""
        ...

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place, until `close_opened`."""
        ...

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state."""
        ...

    def known(self) -> list[int]:
        """Return the clients that have a state here, in order."""
        ...

    def close_opened(self) -> None:
        """Note that no state is changed any more that was opened."""
        ...


class Overlay:
    """States as another store has them, until they are written here; the other store is only read."""

    def __init__(self, below: ClientStore, memory: RoundMemory) -> None:
        self._below, self._memory = below, memory
        self._own: dict[int, StoredTensors] = {}
        self._opened: dict[int, State] = {}

    def read(self, client: int) -> State:
        """Return a copy of a client's state."""
        if client in self._opened:
            return self._opened[client].copy()
        return State(self._own[client]).copy() if client in self._own else self._below.read(client)

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place."""
        # `read` gives a copy, so that what is changed here is not changed below.
        return self._opened.setdefault(client, self.read(client))

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state."""
        self._opened.pop(client, None)
        self._own[client] = self._memory.keep(state.tensors())

    def known(self) -> list[int]:
        """Return the clients that have a state in either, in order."""
        return sorted({*self._below.known(), *self._own, *self._opened})

    def close_opened(self) -> None:
        """Note that no state is changed any more that was opened."""
        for client, state in list(self._opened.items()):
            self.write(client, state)
