"""The state file of a run directory, as the process that trains writes it: places, index, and what is forgotten."""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flatfed.core.method.state import State
from flatfed.runs.records.files import PAUSE_SECONDS, TRIES, sync_directory
from flatfed.runs.states.form import StateForm
from flatfed.runs.states.free_places import Places
from flatfed.runs.states.index_log import IndexLog
from flatfed.runs.states.state_file import Ref, StateFile

Refs = dict[int, Ref]
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Vault:
    """Where a store's states go: a state file, made when the first comes, and which of its places are free.

    Without a folder it is a scratch file that vanishes with the process, and no checkpoint can be made of it.
    """

    def __init__(self, folder: Path | None = None, name: str = "", scratch: Path | None = None) -> None:
        self._folder, self._name, self._scratch = folder, name, scratch
        self.file: StateFile | None = None
        self._places = Places()
        self._log: IndexLog | None = None
        self._unsynced_folder = False

    def go_on(self, file: StateFile, current: Collection[int], checkpoints: Mapping[int, frozenset[int]]) -> None:
        """Go on in a checkpoint's file, where that may be written; otherwise a new one is made."""
        if file.make_writable():
            self.file, self._places = file, Places(file.places, current, checkpoints)

    def write(self, state: State, hashed: bool = False) -> Ref:
        """Put a state into a free place."""
        if self.file is None:
            self.file = self._new_file(StateForm.of(state))
        place = self._places.take()
        try:
            return Ref(self.file, place, self.file.write(place, state, hashed))
        except BaseException:
            self._places.give_back(place)
            raise

    def _new_file(self, form: StateForm) -> StateFile:
        if self._folder is None:
            return StateFile.scratch(form, self._scratch)
        self._unsynced_folder = True
        return StateFile.create(self._folder, self._name, form)

    def owns(self, ref: Ref) -> bool:
        """Say whether a state lies here."""
        return ref.source is self.file

    def release(self, ref: Ref) -> None:
        """Let the place of a state that no checkpoint refers to be free."""
        self._places.give_back(ref.place)

    def hashed(self, ref: Ref) -> Ref:
        """Return where a state lies together with its SHA-256, which a checkpoint needs."""
        assert self.file is not None
        return ref if ref.digest else ref._replace(digest=self.file.digest(ref.place))

    def write_index(self, refs: Refs, new: Refs) -> dict[str, Any] | None:
        """Force the states to the disk, add the new ones to the index; return what a manifest says of them.

        Args:
            refs: where the states were at the last checkpoint.
            new: where those are that changed since.
        """
        if self.file is None:
            return None
        assert self._folder is not None
        if new:
            self.file.sync()
        log = self._log
        if log is None or log.is_long(len(refs)):
            log, rest = IndexLog(self._folder, self._name), {c: ref for c, ref in refs.items() if c not in new}
            self._unsynced_folder = True
            log.add(_entries(rest) + _entries(new))
        elif new:
            log.add(_entries(new))
        self._log = log
        if self._unsynced_folder:
            sync_directory(self._folder)
            self._unsynced_folder = False
        return {"file": self.file.name, "form": self.file.form.to_json(), "index": log.mark, "new": len(new)}

    def saved(self, round: int, refs: Refs, new: Refs) -> None:
        """Note that the checkpoint with this index is in place; `refs` are those of the one before."""
        before = [refs[client] for client in new if client in refs]
        superseded = [ref.place for ref in before if ref.source is self.file]
        self._places.save(round, [ref.place for ref in new.values()], superseded)

    def leave(self, lock: object) -> None:
        """Note that another process may go on in the file; `lock` keeps the checkpoint that was saved last."""
        if self.file is not None:
            self.file.leave(lock)

    def forget(self, there: Collection[int]) -> None:
        """Let the places be free that none of the checkpoints refers to that are still there."""
        for round in self._places.rounds - set(there):
            self._places.forget(round)
        if self.file is not None:
            self.file.cut(self._places.shrink())


def _entries(refs: Refs) -> list[tuple[int, int, bytes]]:
    return [(client, ref.place, ref.digest) for client, ref in refs.items()]


class ReadLock:
    """As long as this lives, the process that trains does not forget the checkpoint in this folder.

    Its states are read when they are asked for, which may be long after it was opened.
    """

    def __init__(self, folder: Path) -> None:
        with suppress(OSError):  # one that is not there, or a file system without locks
            descriptor = os.open(folder, FOLDER)
            weakref.finalize(self, os.close, descriptor)
            _share(descriptor)


def _share(descriptor: int) -> None:
    """Take the lock; the process that trains holds it for a moment when it looks, so it is tried a few times."""
    for _ in range(TRIES):
        try:
            # `flock`, which belongs to this opening of the folder: this process may be the one that trains.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE_SECONDS)
        else:
            return


def is_read(folder: Path) -> bool:
    """Say whether somebody reads the checkpoint in this folder."""
    try:
        descriptor = os.open(folder, FOLDER)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)
