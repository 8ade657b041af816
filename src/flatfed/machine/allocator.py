"""Freed memory is kept for the next step instead of being given back to the system and fetched again.

A step of a convolutional network frees and takes tens of megabytes. The C library's default returns such blocks to the
system at once, and every step then pays for thousands of page faults: about a fifth of the time of the papers' CNN.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BLOCKS = (2**30, 2**25)
# The largest that `mallopt` takes: its values are C ints.
KEPT_TOP = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed blocks in this process; say whether it was told. Other C libraries are left alone."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (only glibc has it)
        # Older ones take no more than 32 MB; the second setting alone would do harm.
        taken = any(library.mallopt(M_MMAP_THRESHOLD, block) for block in KEPT_BLOCKS)
        return taken and bool(library.mallopt(M_TRIM_THRESHOLD, KEPT_TOP))
    return False
