"""A file of client states: places of one size, each read and written by itself.

States are read with `pread` and not through a mapping: of a file that somebody cut short, a mapping would end the
process, where a read is an error that can be reported. Nothing of the file stays in the process's memory.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
import weakref
from pathlib import Path
from typing import NamedTuple, Protocol

from torch import Tensor

from flatfed.core.errors import CheckpointError
from flatfed.core.method.state import State
from flatfed.machine import open_regular
from flatfed.runs.records.files import may_write, naming, open_unlinked
from flatfed.runs.states.form import StateForm, bytes_of


class StateSource(Protocol):
    """Where states lie that are read when they are asked for."""

    def read(self, place: int, digest: bytes) -> State:
        """Return the state in a place; one that is not what it was is an error. An empty digest is not checked."""
        ...


class Ref(NamedTuple):
    """Where a client's state lies; the digest is empty while no checkpoint refers to it."""

    source: StateSource
    place: int
    digest: bytes


class StateFile:
    """Places of one size in a file, which has a name in a run directory or none at all."""

    def __init__(self, descriptor: int, form: StateForm, path: Path | None, lock: object = None) -> None:
        self.form, self.path = form, path
        self._label = path or Path("a scratch file")
        self._lock = lock
        self._seen: set[int] = set()
        self._writable = False
        self._hold(descriptor)

    def _hold(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def create(cls, folder: Path, name: str, form: StateForm) -> StateFile:
        """Make a new file in a run directory."""
        # With a name that no file had before: what was left there by another process is never taken for this one's.
        path = folder / f"{name}-{secrets.token_hex(4)}.states"
        with naming(path):
            file = cls(open_unlinked(path, os.O_RDWR | os.O_CREAT | os.O_EXCL), form, path)
        file._writable = True
        return file

    @classmethod
    def scratch(cls, form: StateForm, directory: Path | None = None) -> StateFile:
        """Make a file without a name, which cannot be left behind."""
        folder = directory or Path(tempfile.gettempdir())
        # A name as `remove_temporary_files` knows them, where the system needs one for a moment.
        with naming(folder), tempfile.TemporaryFile(dir=folder, prefix=".", suffix=".tmp") as temporary:
            file = cls(os.dup(temporary.fileno()), form, None)
        file._writable, file._label = True, Path(f"a scratch file in {folder}")
        return file

    @classmethod
    def open(cls, path: Path, form: StateForm, lock: object = None) -> StateFile:
        """Open a file of a checkpoint, to read it; `lock` is kept as long as the file is read only."""
        return cls(open_regular(path), form, path, lock)

    def make_writable(self) -> bool:
        """Open the file for writing too; say whether it may be written in place."""
        assert self.path is not None
        # A file with a second name is also somebody's copy, which must not change.
        if not may_write(self.path) or os.fstat(self._descriptor).st_nlink > 1:
            return False
        self._hold(open_unlinked(self.path, os.O_RDWR))
        self._writable, self._lock = True, None
        return True

    def leave(self, lock: object) -> None:
        """Note that others may write the file from now on: what is read is compared, and `lock` is kept."""
        self._writable, self._lock = False, lock
        self._seen.clear()

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        assert self.path is not None
        return self.path.name

    @property
    def places(self) -> int:
        """How many whole places the file has."""
        return os.fstat(self._descriptor).st_size // self.form.size

    def read(self, place: int, digest: bytes) -> State:
        """Return the state in a place; one that is not what it was is an error."""
        state, views = self._load(place)
        if digest and place not in self._seen:
            self._compare(place, views, digest)
        return state

    def read_entry(self, place: int, name: str) -> Tensor:
        """Return one tensor of the state in a place, with memory of its own."""
        entry, before = self.form.place_of(name)
        tensor = entry.empty()
        if entry.nbytes:
            self._get([bytes_of(tensor)], place, before)
        return tensor

    def check(self, place: int, digest: bytes) -> None:
        """Refuse a place whose bytes are not what they were."""
        self._compare(place, self._load(place)[1], digest)

    def digest(self, place: int) -> bytes:
        """Return the SHA-256 of a place."""
        return _sha256(self._load(place)[1])

    def write(self, place: int, state: State, hashed: bool) -> bytes:
        """Write a state into a place; return its SHA-256 where that is asked for."""
        sha, position = hashlib.sha256(), place * self.form.size
        for view in self.form.views(state):
            if hashed:
                sha.update(view)
            self._put(view, position)
            position += len(view)
        # What this process wrote itself need not be compared each time that it is read.
        self._seen.add(place)
        return sha.digest() if hashed else b""

    def sync(self) -> None:
        """Force what was written to the disk."""
        with naming(self._label):
            os.fsync(self._descriptor)

    def cut(self, places: int) -> None:
        """Let the file end after this many places."""
        if self.places > places:
            os.ftruncate(self._descriptor, places * self.form.size)

    def _put(self, view: memoryview, position: int) -> None:
        with naming(self._label):
            while view:
                written = os.pwrite(self._descriptor, view, position)
                view, position = view[written:], position + written

    def _load(self, place: int) -> tuple[State, list[memoryview]]:
        """Return the state in a place, and its bytes."""
        state, views = self.form.empty()
        self._get(views, place)
        return state, views

    def _get(self, views: list[memoryview], place: int, before: int = 0) -> None:
        """Fill these with the bytes of a place, from the given one on."""
        position = place * self.form.size + before
        while views:
            count = os.preadv(self._descriptor, views, position)
            if not count:
                raise self._damaged(place, "it ends before this place")
            views, position = _after(views, count), position + count

    def _compare(self, place: int, views: list[memoryview], digest: bytes) -> None:
        if _sha256(views) != digest:
            raise self._damaged(place, "its bytes do not have the SHA-256 of the index")
        if self._writable:
            self._seen.add(place)

    def _damaged(self, place: int, why: str) -> CheckpointError:
        return CheckpointError(f"{self._label} is damaged at place {place}: {why}")


def _after(views: list[memoryview], count: int) -> list[memoryview]:
    """Return what is left of these bytes without the first ones."""
    left = list(views)
    while left and count >= len(left[0]):
        count -= len(left.pop(0))
    return [left[0][count:], *left[1:]] if left else []


def _sha256(views: list[memoryview]) -> bytes:
    digest = hashlib.sha256()
    for view in views:
        digest.update(view)
    return digest.digest()
