"""State per client: created when a client first takes part, so that the size of the population costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flatfed.core.method.state import State


class ClientStore(Protocol):
    """State of the clients that have taken part."""

    def read(self, client: int) -> State:
        """Return a copy of a client's state; a fresh one if it has never taken part."""
        ...

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place."""
        ...

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state."""
        ...

    def known(self) -> list[int]:
        """Return the clients that have a state here, in order."""
        ...

    def take_changed(self) -> set[int]:
        """Return the clients whose state changed since the last call."""
        ...

    def mark_changed(self, clients: set[int]) -> None:
        """Count these as changed again: they could not be saved."""
        ...


class MemoryStore:
    """Client states in memory."""

    def __init__(self, fresh: Callable[[], State]) -> None:
        self._fresh = fresh
        self._states: dict[int, State] = {}
        self._changed: set[int] = set()

    def read(self, client: int) -> State:
        """Return a copy of a client's state; a fresh one if it has never taken part."""
        return self._states[client].copy() if client in self._states else self._fresh()

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place."""
        self._changed.add(client)
        if client not in self._states:
            self._states[client] = self._fresh()
        return self._states[client]

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state."""
        # A method without client state would otherwise fill memory and checkpoints with empty entries.
        if len(state):
            self._states[client] = state
            self._changed.add(client)

    def known(self) -> list[int]:
        """Return the clients that have a state here, in order."""
        return sorted(self._states)

    def take_changed(self) -> set[int]:
        """Return the clients whose state changed since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def mark_changed(self, clients: set[int]) -> None:
        """Count these as changed again: they could not be saved."""
        self._changed |= clients


class Overlay:
    """States as another store has them, until they are written here; the other store is only read."""

    def __init__(self, below: ClientStore) -> None:
        self._below = below
        self._own: dict[int, State] = {}

    def read(self, client: int) -> State:
        """Return a copy of a client's state."""
        return self._own[client].copy() if client in self._own else self._below.read(client)

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place."""
        # `read` gives a copy, so that what is changed here is not changed below.
        return self._own.setdefault(client, self.read(client))

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state."""
        self._own[client] = state

    def known(self) -> list[int]:
        """Return the clients that have a state in either, in order."""
        return sorted({*self._below.known(), *self._own})

    def take_changed(self) -> set[int]:
        """Return none: nothing here is ever saved."""
        return set()

    def mark_changed(self, clients: set[int]) -> None:
        """Nothing here is ever saved."""
