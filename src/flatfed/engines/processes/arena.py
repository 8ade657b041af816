"""Shared memory for named tensors between the server's process and one worker.

An `Outbox` is written by one process and read by another through an `Inbox`: a file in memory (`/dev/shm`
where there is one, a temporary directory otherwise), mapped by both. Only a small header of names, types and
offsets goes through the pipe; tensors are never pickled.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from flatfed.core.errors import EngineError
from flatfed.machine import reserve

# A multiple of every element's size, as a view of bytes in another type needs it.
ALIGN = 64

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
WHOLES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
DTYPES = {str(dtype): dtype for dtype in FLOATS + WHOLES}


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor lies in the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Header:
    """What an outbox holds now: the file (a new one each time it grows) and its entries."""

    file: str
    capacity: int
    entries: tuple[TensorEntry, ...]


class Outbox:
    """The writing end."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name, self._generation = directory, name, 0
        self._buffer: Tensor | None = None
        self._file = ""

    def write(self, tensors: Mapping[str, Tensor]) -> Header:
        """Copy the tensors in and return the header that finds them."""
        entries, offset = [], 0
        for name, tensor in tensors.items():
            entries.append(TensorEntry(name, str(tensor.dtype), tuple(tensor.shape), offset))
            offset += -(-tensor.numel() * tensor.element_size() // ALIGN) * ALIGN
        # Never empty: a file without bytes cannot be mapped.
        buffer = self._room(max(offset, ALIGN))
        for entry, tensor in zip(entries, tensors.values(), strict=True):
            _view(buffer, entry).copy_(tensor)
        return Header(self._file, len(buffer), tuple(entries))

    def _room(self, size: int) -> Tensor:
        if self._buffer is not None and len(self._buffer) >= size:
            return self._buffer
        if self._file:
            # A reader that has it mapped keeps its pages; the memory is free when the last one lets go.
            Path(self._file).unlink(missing_ok=True)
        # A new name for each size: a reader that has the old file mapped must notice that there is another.
        self._generation += 1
        # The process is in the name as well: one that replaces a dead worker counts from the beginning again.
        path = self._directory / f"{self._name}-{os.getpid()}-{self._generation}"
        with path.open("wb") as file:
            _reserve(file.fileno(), size)
        self._file, self._buffer = str(path), _mapped(path, size)
        return self._buffer


class Inbox:
    """The reading end."""

    def __init__(self) -> None:
        self._file = ""
        self._buffer: Tensor | None = None

    def read(self, header: Header) -> dict[str, Tensor]:
        """Return views of the tensors; they change when the writer writes again."""
        if self._buffer is None or header.file != self._file:
            self._file, self._buffer = header.file, _mapped(Path(header.file), header.capacity)
        return {entry.name: _view(self._buffer, entry) for entry in header.entries}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under names that begin with `prefix/`: several groups can then share a box."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def group(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of one group under their own names."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _reserve(descriptor: int, size: int) -> None:
    """Give a file its size and, where the system can, its room: a full disk is an error now, not a crash later."""
    try:
        reserve(descriptor, size)
    except OSError as error:
        raise EngineError(f"no room for {size:,} bytes of shared memory: {error.strerror}; use fewer workers") from None


def _mapped(path: Path, size: int) -> Tensor:
    # To write, also for readers: torch warns of tensors in memory that cannot be written.
    with path.open("r+b") as file:
        return torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=torch.uint8)


def _view(buffer: Tensor, entry: TensorEntry) -> Tensor:
    dtype = DTYPES[entry.dtype]
    count = math.prod(entry.shape)
    part = buffer[entry.offset : entry.offset + count * dtype.itemsize]
    return part.view(dtype).view(entry.shape)
