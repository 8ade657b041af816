"""The machine: cores that may really be used, freed memory that is kept, room on disk, signals that mean the end.

A step of a convolutional network frees and takes tens of megabytes. The C library's default returns such blocks to the
system at once, and every step then pays for thousands of page faults: about a fifth of the time of the papers' CNN.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import signal
import sys
from pathlib import Path

from flatfed.core.errors import PARAMETER, ConfigError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)
"""What asks a command to end: the interrupt key, schedulers, a terminal that is closed, the quit key."""

MOST_WORKERS = 1024
"""More worker processes than any machine has use for; a number beyond it is a slip."""


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of cores to plan for, at least one."""
    cores = _affinity()
    quota = _cgroup_quota(cgroup)
    if quota is not None:
        # Down: with more workers than the quota allows, all of them would be held up.
        cores = min(cores, math.floor(quota))
    return max(1, cores)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_quota(root: Path) -> float | None:
    """Return the CPU quota in cores, of cgroup v2 or v1; None where there is none (or no cgroup, as on macOS)."""
    for read in (_quota_v2, _quota_v1):
        try:
            return read(root)
        except (OSError, ValueError):  # not this version's files
            continue
    return None


def _quota_v2(root: Path) -> float | None:
    quota, period = (root / "cpu.max").read_text().split()[:2]
    return None if quota == "max" else max(1.0, int(quota) / int(period))


def _quota_v1(root: Path) -> float | None:
    quota = int((root / "cpu" / "cpu.cfs_quota_us").read_text())
    if quota <= 0:
        return None
    return max(1.0, quota / int((root / "cpu" / "cpu.cfs_period_us").read_text()))


def worker_count(workers: int | str) -> int:
    """Return the number of worker processes that `workers` asks for; 0 means this process."""
    if workers == "auto":
        return usable_cores()
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ConfigError(f"workers must be 'auto' or a whole number of at least 0, not {workers!r}")
    if workers > MOST_WORKERS:
        raise ConfigError(
            f"{PARAMETER} must be at most {MOST_WORKERS:,}, not {workers}; each is a process", parameter="workers"
        )
    return workers


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


def reserve(descriptor: int, size: int) -> None:
    """Give a file its size and, where the system can, its room: a full disk is an error now, not a crash later."""
    if hasattr(os, "posix_fallocate"):
        # A file with a size alone takes room as it is written: through a mapping, a full disk then kills the process.
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def disk_full(error: BaseException | None) -> OSError | None:
    """Return the error of a full disk, or of a used-up quota, that lies behind another one; None if there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return error
        error = error.__cause__
    return None


def no_room(error: OSError) -> str:
    """Return the error of a full disk as people read it."""
    return f"{error.filename or 'a file'} could not be written: the disk is full"


PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the system end this process some seconds after the thread that started it, whatever it does.

    Only Linux can. The seconds are for what the process still does by itself when its parent is gone.
    """
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    # No handler in Python: it would wait for code that never returns. The system calls `alarm` itself, with the number
    # of the signal for the seconds, 12. When they are over, the alarm ends the process.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    library.signal(signal.SIGUSR2, library.alarm)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGUSR2)
