"""A number of steps that a worker counts up and the server reads, in shared memory."""

from __future__ import annotations

import mmap
from pathlib import Path

BYTES = 8


class SharedSteps:
    """One counter in a file of the shared directory; a worker that takes another's place counts on."""

    def __init__(self, directory: Path, name: str) -> None:
        path = directory / f"{name}-steps"
        if not path.exists():
            path.write_bytes(bytes(BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), BYTES)
        self._number = memoryview(self._memory).cast("q")

    def add(self) -> None:
        """Count a step."""
        self._number[0] += 1

    @property
    def taken(self) -> int:
        """How many there were."""
        return self._number[0]
