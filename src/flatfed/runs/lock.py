"""The lock of a run directory: who writes it, and whether anybody does."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.runs.records.files import is_writable, may_write, open_unlinked

TRIES, PAUSE_SECONDS = 5, 0.02

_HELD: set[Path] = set()
"""Locks of this process: opening and closing their files again would let them go."""


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Hold a run directory for writing; where another process does, that is an error."""
    path = run.resolve() / ".lock"
    busy = ConfigError(f"{run} is being written by another process; wait for it or stop it")
    if path in _HELD:
        raise busy
    # Not emptied, and no link: it may lead to a file of the user.
    with os.fdopen(open_unlinked(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        if not _locked(file.fileno()):
            raise busy
        _HELD.add(path)
        try:
            yield
        finally:
            _HELD.discard(path)


def refuse_unwritable(run: Path) -> None:
    """Refuse a run that is to go on and cannot be written: now, before anybody waits for it."""
    lock = run / ".lock"
    folders = (run, run / "checkpoints", run / "checkpoints/states")
    if not all(map(is_writable, folders)) or (lock.exists() and not may_write(lock)):
        raise ConfigError(
            f"{run} cannot be written, and a run that goes on adds to it; go on with a copy, or get the right to write"
        )


def _locked(descriptor: int) -> bool:
    """Take the lock; `show` holds it for a moment when it looks, so it is tried a few times."""
    for _ in range(TRIES):
        try:
            # A record lock, not flock: worker processes do not inherit it, so it ends with this process.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(PAUSE_SECONDS)
        else:
            return True
    return False


def is_held(run: Path) -> bool:
    """Say whether a process writes a run directory."""
    path = run.resolve() / ".lock"
    # Not through the file where this process holds the lock: closing it again would let the lock go.
    if path in _HELD or path.is_symlink() or not path.exists():
        return path in _HELD
    try:
        # To read and shared, which is all that may be had of a run of somebody else, or on a disk without writing.
        with os.fdopen(open_unlinked(path, os.O_RDONLY), "rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except OSError:
        return True
