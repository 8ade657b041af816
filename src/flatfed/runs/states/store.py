"""Client states with a memory budget; what exceeds it lies in the files that checkpoints are made of.

A run without a directory has a scratch file instead, which vanishes with the process.
"""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from flatfed.core.method.state import State
from flatfed.runs.states.saved import SavedStates
from flatfed.runs.states.vault import Refs, Vault

ALIGN = 64


class StateStore:
    """Keeps the states that were written last in memory, up to `budget` bytes, and the others in files."""

    def __init__(self, fresh: Callable[[], State], budget: int, directory: Path | None = None) -> None:
        self._fresh, self._budget = fresh, budget
        self._vault = Vault(scratch=directory)
        self._memory: OrderedDict[int, State] = OrderedDict()
        self._in_memory = 0
        self._opened: dict[int, OpenedState] = {}
        # Where states lie: as the last checkpoint has them, and as they are now, where they changed since.
        self._saved: Refs = {}
        self._spilled: Refs = {}
        self._changed: set[int] = set()
        # Those of the changed that are in memory alone, and those that lie where this store does not write.
        self._unwritten: set[int] = set()
        self._elsewhere: set[int] = set()

    def read(self, client: int) -> State:
        """Return a copy of a client's state; a fresh one if it has never taken part."""
        if client in self._memory:
            return self._memory[client].copy()
        ref = self._spilled.get(client) or self._saved.get(client)
        return self._fresh() if ref is None else ref.source.read(ref.place, ref.digest)

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place, until `close_opened`."""
        if not self._is_open(client):
            state = self.read(client)
            self._drop(client)
            opened = self._opened[client] = OpenedState(state)
            self._keep(client, opened.memory)
        self._note_change(client)
        return self._opened[client].state()

    def _is_open(self, client: int) -> bool:
        """Say whether a state may still be changed by whoever has opened it."""
        return client in self._opened and self._opened[client].is_held

    def close_opened(self) -> None:
        """Note that no state is changed any more that was opened: it may leave the memory."""
        self._opened.clear()
        self._make_room()

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state."""
        # A method without client state would otherwise fill memory and checkpoints with empty entries.
        if not len(state):
            return
        self._note_change(client)
        if self._is_open(client):
            for name, entry in self._memory[client].tensors().items():
                entry.copy_(getattr(state, name))  # whoever opened it sees it too
            return
        self._drop(client)
        self._keep(client, state)

    def known(self) -> list[int]:
        """Return the clients that have a state here, in order."""
        return sorted({*self._memory, *self._spilled, *self._saved})

    @property
    def bytes_in_memory(self) -> int:
        """Bytes of client state that are held in memory."""
        return self._in_memory

    def _note_change(self, client: int) -> None:
        self._changed.add(client)
        self._unwritten.add(client)
        ref = self._spilled.pop(client, None)
        if ref is not None:
            self._vault.release(ref)

    def _keep(self, client: int, state: State) -> None:
        self._memory[client] = state
        self._in_memory += _size(state)
        self._make_room()

    def _make_room(self) -> None:
        """Let states leave the memory, the oldest first, until the rest is within the budget."""
        while self._in_memory > self._budget:
            client = next((client for client in self._memory if not self._is_open(client)), None)
            if client is None:
                return
            if client in self._unwritten:
                self._spilled[client] = self._vault.write(self._memory[client])
                self._unwritten.discard(client)
            self._drop(client)

    def _drop(self, client: int) -> None:
        state = self._memory.pop(client, None)
        if state is not None:
            self._in_memory -= _size(state)

    # Checkpoints.

    def adopt(self, states: SavedStates) -> None:
        """Let the states be those of a checkpoint; none of them is read now."""
        self._saved = dict(states.refs)
        self._elsewhere = set(self._saved)

    def stage(self, vault: Vault) -> tuple[Refs, Refs]:
        """Write what changed since the last checkpoint; return where states were then, and where the new ones are."""
        if vault is not self._vault:
            self._move(vault)
        for client in sorted(self._unwritten):
            self._spilled[client] = vault.write(self._memory[client], hashed=True)
            self._unwritten.discard(client)
        for client in sorted(self._elsewhere - set(self._spilled)):
            self._spilled[client] = vault.write(self.read(client), hashed=True)
        for client, ref in self._spilled.items():
            self._spilled[client] = vault.hashed(ref)
        return self._saved, self._spilled

    def _move(self, vault: Vault) -> None:
        """Write to another place from now on; what lies where it may not stay is written there with the next."""
        spilled = self._spilled.items()
        # All of them before the first counts: what is spilled is always in the one vault that this store has.
        self._spilled = {client: vault.write(ref.source.read(ref.place, ref.digest)) for client, ref in spilled}
        self._vault = vault
        self._elsewhere = {client for client, ref in self._saved.items() if not vault.owns(ref)}

    def committed(self) -> None:
        """Note that the checkpoint of what was staged is in place."""
        self._saved |= self._spilled
        self._spilled = {}
        self._changed.clear()
        self._elsewhere.clear()

    def leave(self, lock: object) -> None:
        """Write no more: others may, but for what is kept by `lock`; so what is read is compared from now on."""
        self._spilled = {client: self._vault.hashed(ref) for client, ref in self._spilled.items()}
        self._vault.leave(lock)


class OpenedState:
    """A state that is changed in place: the store has tensors of its own with the same memory.

    When all others are gone, nobody changes the state any more. A round may open the states of all its clients, one
    after another, and they need not be in memory together.
    """

    def __init__(self, state: State) -> None:
        self.memory = _with_same_memory(state)
        self._first: State | None = state

    @property
    def is_held(self) -> bool:
        """Whether somebody has one of the tensors, or anything else with its memory, such as an array of NumPy."""
        return self._first is not None or _is_used_elsewhere(self.memory)

    def state(self) -> State:
        """Return the state for whoever opens it; whoever has done so before sees the same changes."""
        handed, self._first = self._first, None
        return handed or _with_same_memory(self.memory)


def _with_same_memory(state: State) -> State:
    return State({name: _same_memory(tensor) for name, tensor in state.tensors().items()})


def _is_used_elsewhere(state: State) -> bool:
    """Say whether others than a state's own tensors have their memory: torch counts who does."""
    own = Counter(tensor.untyped_storage()._cdata for tensor in state.tensors().values())
    return any(_uses(storage) - _uses_beside_tensors() > tensors for storage, tensors in own.items())


def _uses(storage: int) -> int:
    return torch._C._storage_Use_Count(storage)


@functools.cache
def _uses_beside_tensors() -> int:
    """Return how many more torch counts than there are tensors."""
    single = torch.empty(1)
    return _uses(single.untyped_storage()._cdata) - 1


def _same_memory(tensor: Tensor) -> Tensor:
    """Return another tensor with the same memory, which does not keep the first one alive, as a view would."""
    storage = tensor.untyped_storage()
    return tensor.new_empty(0).set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())


def _size(state: State) -> int:
    return sum(_aligned(tensor) for tensor in state.tensors().values())


def _aligned(tensor: Tensor) -> int:
    return max(ALIGN, -(-tensor.numel() * tensor.element_size() // ALIGN) * ALIGN)
