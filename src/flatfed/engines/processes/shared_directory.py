"""The directory of a pool's shared memory: made, held while its process lives, and removed, by the next if need be.

A process that is killed leaves its directory, and the memory in it, behind. So the owner holds a lock on a file in it,
which ends with the process, however that ends. Whoever starts a pool removes the directories whose lock is free.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flatfed.machine import is_alive

MEMORY = Path("/dev/shm")
# Containers usually have 64 MB of shared memory, too little for the models of several workers.
SPARE = 64 * 2**20
PREFIX, OWNER = "flatfed-", ".owner"
NAME = re.compile(r"flatfed-[a-z0-9_]{8}")
"""As `mkdtemp` makes it."""

# What earlier versions made has no lock: the files must be theirs, their processes gone, and the directory old.
EARLIER_FILE = re.compile(r"(?:worker\d+-(?:up|down)|down\d+|given\d+)-(?P<pid>\d+)-\d+")
EARLIER_SECONDS = 24 * 3600

_OWN: set[Path] = set()
"""Those of this process: a process is granted its own locks again, and loses them when it closes the file."""


class SharedDirectory:
    """A private directory in memory, or in the temporary directory where there is no room for one."""

    def __init__(self) -> None:
        sweep(MEMORY)
        sweep(Path(tempfile.gettempdir()))
        roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > SPARE
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY if roomy else None))
        _OWN.add(self.path.resolve())
        self._owner = _hold(self.path)

    def remove(self) -> None:
        """Remove it, and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        # Not before it is gone: until then it is this process's.
        os.close(self._owner)
        _OWN.discard(self.path)


def _hold(directory: Path) -> int:
    """Lock the file that says whose a directory is, and return its descriptor: the lock lasts while that is open."""
    # Under another name until it is locked: one that is not would be taken for that of a process that is gone.
    temporary = directory / f"{OWNER}.tmp"
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):  # a file system without locks: then it has no owner's file, and is left alone
        # A record lock, not flock: worker processes do not inherit it.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        temporary.rename(directory / OWNER)
    return descriptor


def sweep(place: Path) -> None:
    """Remove the directories of this user's pools whose processes are gone."""
    with suppress(OSError):
        for path in place.glob(f"{PREFIX}*"):
            if path.resolve() not in _OWN and _is_ours(path):
                _remove_if_left(path)


def _is_ours(path: Path) -> bool:
    """Say whether a path is a directory with such a name, not a link to one, and this user's."""
    if not NAME.fullmatch(path.name):
        return False
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _remove_if_left(path: Path) -> None:
    """Remove a directory whose owner is gone."""
    try:
        with _taken(path / OWNER):
            shutil.rmtree(path, ignore_errors=True)
    except FileNotFoundError:
        if _is_of_earlier_version(path):
            shutil.rmtree(path, ignore_errors=True)
    except OSError:
        return  # its owner lives, or nobody can say


@contextmanager
def _taken(file: Path) -> Iterator[None]:
    """Hold the lock of an owner's file; an error where somebody else holds it."""
    # A link is not followed, and a pipe is not waited for.
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _is_of_earlier_version(path: Path) -> bool:
    """Say whether a directory without an owner's file was left by an earlier version, and by nothing else."""
    try:
        is_old = time.time() - path.stat().st_mtime > EARLIER_SECONDS
        files = [entry.name for entry in path.iterdir()]
    except OSError:
        return False
    # Not an empty one: nothing says that it is ours, and it holds no memory.
    return is_old and bool(files) and all(map(_is_left, files))


def _is_left(name: str) -> bool:
    """Say whether a file is of a pool whose process is gone."""
    found = EARLIER_FILE.fullmatch(name)
    return found is not None and not is_alive(int(found["pid"]))
