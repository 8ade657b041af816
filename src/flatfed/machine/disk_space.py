"""Room on disk or in shared memory, taken before it is needed."""

from __future__ import annotations

import os


def reserve(descriptor: int, size: int) -> None:
    """Give a file its size and, where the system can, its room: a full disk is an error now, not a crash later."""
    if hasattr(os, "posix_fallocate"):
        # A file with a size alone takes room as it is written: through a mapping, a full disk then kills the process.
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)
