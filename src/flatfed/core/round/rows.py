"""What clients have, as rows of matrices: received messages, kept states, notes for one exchange."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from flatfed.core.configuration.config import PLAIN, Config
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.round.row_wise import NotTogether, RowWise

CONSTANT = (*PLAIN, Config)
"""Values that nobody can change in place, so that clients may share one."""


def stacked_message(clients: Sequence[Client]) -> Message:
    """Return what clients received: what all have as it is, what each has as a row."""
    first = clients[0].received
    for client in clients:
        if client.received.scalars != first.scalars or client.received.vectors.keys() != first.vectors.keys():
            raise NotTogether("they received other numbers")
    vectors = {name: _shared([client.received.vectors[name] for client in clients]) for name in first.vectors}
    return Message.of(vectors, first.scalars)


def _shared(vectors: Sequence[Tensor]) -> Tensor:
    if vectors[0].dim() == 1 and all(vector is vectors[0] for vector in vectors):
        return vectors[0]
    return stacked(vectors)


def stacked(vectors: Sequence[Tensor]) -> Tensor:
    """Return vectors as the rows of a matrix of their own."""
    if any(vector.dim() != 1 or vector.shape != vectors[0].shape for vector in vectors):
        raise NotTogether("what they hold is not a vector each")
    return torch.stack(list(vectors))


def stacked_memo(clients: Sequence[Client]) -> SimpleNamespace:
    """Return the clients' notes as one: vectors as rows, and constants that all have."""
    first = vars(clients[0].memo)
    if any(vars(client.memo).keys() != first.keys() for client in clients):
        raise NotTogether("their notes differ")
    return SimpleNamespace(**{name: _noted([vars(client.memo)[name] for client in clients]) for name in first})


def _noted(values: Sequence[Any]) -> Any:
    if all(isinstance(value, Tensor) for value in values):
        return stacked(values)
    # By its text: 0.0, -0.0 and False are equal too.
    if all(isinstance(value, CONSTANT) and repr(value) == repr(values[0]) for value in values):
        return values[0]
    raise NotTogether("their notes differ")


def refuse_shared_memory(memo: SimpleNamespace, others: Iterable[Tensor], besides: Tensor | None = None) -> None:
    """Refuse notes in the memory of something else, or of one another: copies would not change with it."""
    notes = [_memory_of(value) for value in vars(memo).values() if isinstance(value, Tensor)]
    if besides is not None:
        notes = [note for note in notes if note != _memory_of(besides)]
    if notes and (len(set(notes)) < len(notes) or not {_memory_of(other) for other in others}.isdisjoint(notes)):
        raise NotTogether("a note is the same as something else")


def _memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def memos_of(memo: SimpleNamespace, clients: int) -> list[SimpleNamespace]:
    """Return each client's notes."""
    memos = [SimpleNamespace() for _ in range(clients)]
    for name, value in vars(memo).items():
        for single, mine in zip(memos, _divided(value, clients), strict=True):
            setattr(single, name, mine)
    return memos


def _divided(value: Any, clients: int) -> Sequence[Any]:
    if isinstance(value, CONSTANT):
        return [value] * clients
    if not isinstance(value, Tensor) or value.dim() > 2 or (value.dim() == 2 and len(value) != clients):
        raise NotTogether("they have noted what cannot be divided")
    # A vector that is the same for all is copied: each may change its own.
    return value.unbind() if value.dim() == 2 else [value.clone() for _ in range(clients)]


class RowState:
    """The states of clients, to the hooks of a step: `kept.x` has a row for each client.

    An entry is stacked when it is first asked for. Only vectors of the model's size can be.
    """

    __slots__ = ("_entries", "_mode", "_size", "_states")
    _entries: dict[str, Tensor]
    _mode: RowWise
    _size: int
    _states: Sequence[State]

    def __init__(self, mode: RowWise, states: Sequence[State], size: int) -> None:
        for name, value in (("_mode", mode), ("_states", states), ("_size", size), ("_entries", {})):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Tensor:
        if name not in self._entries:
            with self._mode.asleep():
                self._entries[name] = self._stacked(name)
        return self._entries[name]

    def _stacked(self, name: str) -> Tensor:
        if any(name not in state.tensors() for state in self._states):
            self._mode.refuse(f"each client has its own {name}")
        entries = [getattr(state, name) for state in self._states]
        if entries[0].shape != (self._size,):
            self._mode.refuse(f"{name} is not a vector of the model's size")
        return torch.stack(entries)

    def __setattr__(self, name: str, value: Tensor | float) -> None:
        entry = getattr(self, name)
        if value is entry:  # `kept.c += v` has changed it already
            return
        with self._mode.asleep():
            if isinstance(value, Tensor) and value.shape not in (entry.shape, entry.shape[1:]):
                self._mode.refuse(f"{name} has another shape")
            entry.copy_(torch.as_tensor(value))

    def matrices(self) -> list[Tensor]:
        """Return the entries that were asked for."""
        return list(self._entries.values())

    def give_back(self) -> None:
        """Let each client keep its row of what has changed."""
        for name, matrix in self._entries.items():
            if matrix._version:  # a stacked matrix begins at version 0
                for state, row in zip(self._states, matrix, strict=True):
                    setattr(state, name, row)
