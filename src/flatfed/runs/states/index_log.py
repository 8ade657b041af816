"""The index of a state file: which client's state lies in which place, and its SHA-256.

It is a log: a checkpoint adds the clients that changed to its end, and notes the length and the SHA-256 of all of it.
The last entry of a client counts. A log that has become twice as long as it need be is begun anew under another name.
No byte that a checkpoint refers to is ever written again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.files import naming, open_unlinked, read_whole

ENTRY = struct.Struct("<QQ32s")
"""Client, place, SHA-256."""

SPARE_ENTRIES = 1024
"""How many entries a log may have too many, however few clients there are."""

IndexEntry = tuple[int, int, bytes]


class IndexLog:
    """A log that this process began; earlier ones are only read."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}-{secrets.token_hex(4)}.index"
        self.entries = 0
        self._sha = hashlib.sha256()
        with naming(self.path):
            self._descriptor = open_unlinked(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        weakref.finalize(self, os.close, self._descriptor)

    def add(self, entries: Iterable[IndexEntry]) -> None:
        """Add entries of client, place and SHA-256, and force them to the disk."""
        data = b"".join(ENTRY.pack(*entry) for entry in entries)
        with naming(self.path):
            # At the place after the last good one: what is behind that is of an attempt that failed.
            self._put(memoryview(data), self._length)
            os.fsync(self._descriptor)
        self._sha.update(data)
        self.entries += len(data) // ENTRY.size

    def _put(self, view: memoryview, position: int) -> None:
        while view:
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written

    def is_long(self, clients: int) -> bool:
        """Say whether the log has become too long for this many clients."""
        return self.entries > 2 * clients + SPARE_ENTRIES

    @property
    def _length(self) -> int:
        return self.entries * ENTRY.size

    @property
    def mark(self) -> dict[str, Any]:
        """What a checkpoint notes of the log."""
        return {"file": self.path.name, "entries": self.entries, "sha256": self._sha.hexdigest()}


def read_index(path: Path, mark: Mapping[str, Any]) -> list[IndexEntry]:
    """Read a log as far as a checkpoint refers to it; one that is shorter, or not what it was, is an error.

    The last entry of a client counts.
    """
    try:
        data = read_whole(path)[: mark["entries"] * ENTRY.size]
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != mark["sha256"]:
        raise CheckpointError(f"{path} is damaged: its first {mark['entries']} entries do not have their SHA-256")
    return list(ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]))
