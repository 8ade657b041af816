"""The machine: usable cores, freed memory that is kept, files that are files, room on disk, signals that mean the end.

A step of a convolutional network frees and takes tens of megabytes. The C library's default returns such blocks to the
system at once, and every step then pays for thousands of page faults: about a fifth of the time of the papers' CNN.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import math
import os
import platform
import signal
import stat
import sys
from pathlib import Path

from flatfed.core.errors import PARAMETER, ConfigError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)
"""What asks a command to end: the interrupt key, schedulers, a terminal that is closed, the quit key."""

CGROUPS = Path("/sys/fs/cgroup")

MOST_WORKERS = 1024
"""More worker processes than any machine has use for; a number beyond it is a slip."""


def usable_cores(cgroup: Path = CGROUPS) -> int:
    """Return the number of cores to plan for, at least one."""
    cores = _affinity()
    quota = _cgroup_quota(cgroup)
    if quota is not None:
        # Down: with more workers than the quota allows, all of them would be held up.
        cores = min(cores, math.floor(quota))
    if _Share.cores is not None:
        cores = min(cores, _Share.cores)
    return max(1, cores)


class _Share:
    """What this process may use of the machine, where others work beside it on the same thing."""

    cores: int | None = None


def take_cores(cores: int) -> None:
    """Let this process plan for n cores from now on: other processes of the same command have the others."""
    _Share.cores = cores


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = CGROUPS) -> int | None:
    """Return the bytes of memory that can still be had without swapping; None where the system does not tell."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, ValueError, KeyError):
        return None
    try:
        # A container's own bound, cgroup v2; where there is none, it says "max".
        bound = int((cgroup / "memory.max").read_text()) - int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return max(0, min(free, bound))


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
        cores = usable_cores()
        # On one core a worker would only take turns with this process.
        return cores if cores > 1 else 0
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
    """Ask glibc to keep freed blocks in this process; say whether it was asked. Other C libraries are left alone."""
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (only glibc has it)
        # Older ones take no more than 32 MB; the second setting alone would do harm.
        taken = any(library.mallopt(M_MMAP_THRESHOLD, block) for block in KEPT_BLOCKS)
        return taken and bool(library.mallopt(M_TRIM_THRESHOLD, KEPT_TOP))
    return False


class NotAFileError(OSError):
    """What should be a file is something on which a reader may wait for ever."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EINVAL, f"it is {what}, not a file", str(path))


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file, as `os.open` does; a pipe, a socket, a device or a folder in its place is an error at once."""
    try:
        # Without waiting: a pipe is otherwise opened only when somebody is at its other end.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise NotAFileError(path, "a pipe or a socket") from None
        raise
    try:
        _check_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise NotAFileError(path, "a pipe" if stat.S_ISFIFO(mode) else "a device")


def read_regular(path: Path) -> bytes:
    """Return the bytes of a file; what is no file is an error at once."""
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read()


def require_regular(path: Path) -> None:
    """Refuse what is no file, before something reads it by its name."""
    os.close(open_regular(path))


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


@functools.cache
def machine_name() -> str:
    """Return a name that this machine has alone, and keeps until it is started anew.

    A container has one of its own: numbers of processes mean something else in it.
    """
    boot = _text_of("/proc/sys/kernel/random/boot_id")
    try:
        space = str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        space = ""
    return "/".join(filter(None, (platform.node(), boot, space)))


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Say whether a process of this machine is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def start_of_process(pid: int) -> str:
    """Return when a process started, which tells it from a later one of its number; empty where that is not known."""
    status = _text_of(f"/proc/{pid}/stat")
    # What is in brackets, the program's name, may hold anything.
    words = status.rpartition(")")[2].split()
    return words[19] if len(words) > 19 else ""


def has_ended(pid: int, start: str) -> bool:
    """Say whether the process of this machine that had a number and a start, as `start_of_process` tells it, is gone.

    One that has ended and that nobody has asked about yet keeps its number, and is gone all the same.
    """
    if not is_alive(pid) or start_of_process(pid) != start:
        return True
    state = _text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(state) and state[0] in ("Z", "X")


def hear_end_of_parent(number: signal.Signals) -> None:
    """Let the system send this process a signal when the thread that started it ends; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


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
