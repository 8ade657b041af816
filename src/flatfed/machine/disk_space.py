"""Room on disk or in shared memory, taken before it is needed."""

from __future__ import annotations

import os


def reserve(descriptor: int, size: int) -> None:
    """Give a file its size and, where the system can, its room: a full disk is an error now, not a crash later."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)
