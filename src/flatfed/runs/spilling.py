"""Client state with a memory budget: what exceeds it lies in memory-mapped files that vanish with the process."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from flatfed.core.method.state import MemoryStore, State
from flatfed.machine import reserve

# A file for many clients: the number of mappings that a process may have is limited.
SEGMENT_BYTES = 64 * 2**20
ALIGN = 64


@dataclass(frozen=True)
class FileRange:
    """Where an entry lies in a mapped file."""

    segment: mmap.mmap
    first: int
    size: int

    def release(self) -> None:
        """Let its pages go from this process's memory; what they hold stays in the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.segment.madvise(mmap.MADV_DONTNEED, self.first, self.size)


class SpillingStore(MemoryStore):
    """Keeps the first `budget` bytes of client state in memory and maps the rest from scratch files.

    Pages of the files stay in the process's memory only while a state is read, written or changed.
    """

    def __init__(self, fresh: Callable[[], State], budget: int, directory: Path | None = None) -> None:
        super().__init__(fresh)
        self._budget, self._directory = budget, directory
        self._in_memory = 0
        self._segment: mmap.mmap | None = None
        self._segment_size = 0
        self._used = 0
        self._mapped: dict[int, list[FileRange]] = {}
        self._opened: set[int] = set()

    def read(self, client: int) -> State:
        """Return a copy of a client's state; a fresh one if it has never taken part."""
        state = super().read(client)
        self._release(client)
        return state

    def open(self, client: int) -> State:
        """Return a client's state itself, to change in place."""
        if client not in self._states:
            self.write(client, self._fresh())
        # What is open may still be changed, so its pages are let go when the next one is opened.
        for other in self._opened - {client}:
            self._release(other)
        self._opened = {client}
        return super().open(client)

    def write(self, client: int, state: State) -> None:
        """Keep this as the client's state, in memory while the budget lasts."""
        if not len(state):
            return
        self._changed.add(client)
        if client not in self._states:
            self._states[client] = self._place(client, state)
        else:
            for name, entry in self._states[client].tensors().items():
                # In its place: a new one would leave the old room in the file unused.
                entry.copy_(getattr(state, name))
        self._release(client)

    @property
    def bytes_in_memory(self) -> int:
        """Bytes of client state held outside the mapped files."""
        return self._in_memory

    def _release(self, client: int) -> None:
        for part in self._mapped.get(client, ()):
            part.release()

    def _place(self, client: int, state: State) -> State:
        size = sum(_aligned(t, ALIGN) for t in state.tensors().values())
        if self._in_memory + size <= self._budget:
            self._in_memory += size
            return state
        return State({name: self._map(client, entry) for name, entry in state.tensors().items()})

    def _map(self, client: int, entry: Tensor) -> Tensor:
        """Copy a tensor into the scratch file and return its mapped view."""
        # Whole pages, which is what can be let go: a page must not hold states of two clients.
        size = _aligned(entry, mmap.PAGESIZE)
        if self._segment is None or self._used + size > self._segment_size:
            self._segment_size, self._used = max(SEGMENT_BYTES, size), 0
            # The file has no name once it is open, so it cannot be left behind.
            with tempfile.TemporaryFile(dir=self._directory) as file:
                reserve(file.fileno(), self._segment_size)
                self._segment = mmap.mmap(file.fileno(), self._segment_size)
        # At least one entry, for torch makes no tensor of an empty range.
        flat = torch.frombuffer(self._segment, dtype=entry.dtype, count=max(entry.numel(), 1), offset=self._used)
        self._mapped.setdefault(client, []).append(FileRange(self._segment, self._used, size))
        self._used += size
        return flat[: entry.numel()].view(entry.shape).copy_(entry)


def _aligned(tensor: Tensor, step: int) -> int:
    return max(step, -(-tensor.numel() * tensor.element_size() // step) * step)
