"""Checkpoints: safetensors plus JSON, never pickle; complete or not there at all.

A checkpoint is a directory `checkpoints/round-000040`: written under a temporary name, synced, renamed. Each
file's SHA-256 is in its manifest. The states of clients lie together in `checkpoints/states`, written when they changed
and shared by the checkpoints that refer to them (`runs/states`). The last two checkpoints are kept, those of the rounds
that were named, the best one where that is asked for, and any that somebody reads.
At the end of this file: which tensors of a federation go into one, and how they are put back.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from flatfed.core.configuration.checking import fault
from flatfed.core.errors import CheckpointError
from flatfed.core.method.messages import pack
from flatfed.core.method.state import State
from flatfed.core.round.federation import Federation
from flatfed.runs.records.files import (
    FileState,
    digest,
    file_state,
    make_folder,
    read_json,
    refuse_link,
    refuse_way_out,
    remove_temporary_files,
    sync_directory,
    write_synced,
)
from flatfed.runs.records.structure import EARLIER_MANIFEST, MANIFEST
from flatfed.runs.records.structure import check as check_structure
from flatfed.runs.states.saved import SavedStates, indexed_places, open_earlier_states, open_states, read_tensors
from flatfed.runs.states.store import StateStore
from flatfed.runs.states.vault import ReadLock, Refs, Vault, is_read

FORMAT = 2
EARLIER_FORMAT = 1
"""With a file for each client's state: it is read, and no longer written."""
MANIFEST_FILE = "checkpoint.json"
# One more than is needed to go on, should the newest turn out to be damaged.
KEPT = 2
STATE_FILES = (".states", ".index", ".safetensors")

Marks = Mapping[str, Any]
"""What other files of a run were like when a checkpoint was saved, by name."""
NO_MARKS: Marks = {}
Check = Callable[[int, Marks], None]


class ChangedError(CheckpointError):
    """Another file of the run is not what it was when the checkpoint was saved; `what` leaves out what to do."""

    def __init__(self, message: str, parameter: str = "", what: str = "") -> None:
        super().__init__(message, parameter)
        self.what = what


@dataclass(frozen=True)
class Loaded:
    """What a checkpoint holds.

    Args:
        round: the next round to play.
        tensors: those of the server, by name.
        states: of the clients, by store.
        marks: what the other files of the run were when it was saved; none in those of earlier versions.
    """

    round: int
    tensors: dict[str, Tensor]
    states: dict[str, SavedStates]
    marks: Marks


@dataclass(frozen=True)
class _Known:
    """What is known of a checkpoint: what its manifest is like on disk, and the client states that it refers to.

    Args:
        state: of the manifest's file.
        files: names of the files of client states.
        entries: what the manifest says of each store; nothing where each client has a file.
    """

    state: FileState | None
    files: frozenset[str]
    entries: dict[str, Any]

    @classmethod
    def of(cls, state: FileState | None, manifest: dict[str, Any]) -> _Known:
        """Return it for a manifest."""
        states: dict[str, dict[str, Any]] = manifest["states"]
        if manifest["format"] == EARLIER_FORMAT:
            names = (entry.rsplit(":", 1)[0] for files in states.values() for entry in files.values())
            return cls(state, frozenset(names), {})
        names = (name for entry in states.values() for name in (entry["file"], entry["index"]["file"]))
        return cls(state, frozenset(names), states)


class Checkpoints:
    """The checkpoints of one run; those of the rounds `kept` are never forgotten."""

    def __init__(self, directory: Path, run: str, kept: Collection[int] = ()) -> None:
        self._root, self._run, self._kept = directory, run, frozenset(kept)
        self._loaded: dict[str, SavedStates] = {}
        self._vaults: dict[str, Vault] = {}
        self._known: dict[int, _Known] = {}
        self._passed_over: set[int] = set()
        self._latest = 0
        self.best = 0
        """The round of the one that stays until a better one comes; 0 where none does."""

    def save(
        self, round: int, tensors: Mapping[str, Tensor], stores: Mapping[str, StateStore], marks: Marks = NO_MARKS
    ) -> None:
        """Write the state before `round` is played; where that fails, the earlier checkpoints stay as they are."""
        try:
            self._save(round, tensors, stores, marks)
        except OSError as error:
            raise CheckpointError(
                f"{self._root}: the checkpoint of round {round} cannot be written: {error}"
            ) from error

    def _save(self, round: int, tensors: Mapping[str, Tensor], stores: Mapping[str, StateStore], marks: Marks) -> None:
        make_folder(self._root)
        make_folder(self._states)
        # The states first: a manifest must never refer to what is not there.
        staged = {name: store.stage(self._vault(name)) for name, store in stores.items()}
        manifest = {
            "format": FORMAT,
            "run": self._run,
            "round": round,
            "server": "",
            "states": self._write_indexes(staged),
            "marks": dict(marks),
        }
        self._put_in_place(round, manifest, pack(tensors))
        for name, (refs, new) in staged.items():
            self._vaults[name].saved(round, refs, new)
            stores[name].committed()
        # Only when the new one is in place: at every moment there is one to go on from.
        self._latest = round
        self._passed_over.discard(round)
        self._forget_old(round)

    def leave(self, stores: Mapping[str, StateStore]) -> None:
        """Save no more, so that another may go on; as long as the stores live, the last checkpoint stays for them."""
        if self._vaults:
            lock = ReadLock(self._path(self._latest))
            for store in stores.values():
                store.leave(lock)

    def _vault(self, name: str) -> Vault:
        """Return where a store's states are written: the file that was loaded, or a new one."""
        if name not in self._vaults:
            self._vaults[name] = Vault(self._states, name)
            loaded = self._loaded.pop(name, None)
            if loaded is not None and loaded.file is not None:
                current = [ref.place for ref in loaded.refs.values()]
                self._vaults[name].go_on(loaded.file, current, self._places(name, loaded.file.name))
        return self._vaults[name]

    def _places(self, name: str, file: str) -> dict[int, frozenset[int]]:
        """Return the places of a state file that each of the run's checkpoints refers to."""
        places = {}
        for round in self.rounds():
            # One that is damaged or of another run does not count.
            with contextlib.suppress(CheckpointError):
                entry = self._what_is_known(round).entries.get(name, {})
                if entry.get("file") == file:
                    places[round] = indexed_places(self._states, entry)
        return places

    def _write_indexes(self, staged: Mapping[str, tuple[Refs, Refs]]) -> dict[str, Any]:
        written = {name: self._vaults[name].write_index(refs, new) for name, (refs, new) in staged.items()}
        return {name: entry for name, entry in written.items() if entry is not None}

    def _put_in_place(self, round: int, manifest: dict[str, Any], data: bytes) -> None:
        """Write a checkpoint under a temporary name, and give it its own at once."""
        temporary = self._root / f".new-{round:06d}-{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        write_synced(temporary / "server.safetensors", data)
        manifest["server"] = digest(data)
        write_synced(temporary / MANIFEST_FILE, json.dumps({"manifest": manifest, "sha256": _seal(manifest)}).encode())
        sync_directory(temporary)
        final = self._path(round)
        # A directory cannot be renamed over one that is not empty.
        _discard(final)
        temporary.rename(final)
        sync_directory(self._root)
        self._known[round] = _Known.of(file_state(final / MANIFEST_FILE), manifest)

    def rounds(self) -> list[int]:
        """Return the rounds of which there is a checkpoint, newest first."""
        numbers = [path.name.removeprefix("round-") for path in self._root.glob("round-*")]
        return sorted((int(number) for number in numbers if number.isdecimal()), reverse=True)

    def load_newest(self, say: Any = lambda text: None, check: Check = lambda round, marks: None) -> Loaded:
        """Return the newest good checkpoint; one that is damaged or foreign is passed over with its reason.

        `check` is called with a checkpoint's marks and may refuse it.
        """
        passed_over: dict[int, CheckpointError] = {}
        for round in self.rounds():
            try:
                loaded = self.load(round, check)
            except CheckpointError as error:
                # Its frames would hold the checkpoint's lock, and through this dictionary themselves.
                passed_over[round] = error.with_traceback(None)
                continue
            for number, reason in passed_over.items():
                # Another is used, so what could be done about this one is not of interest.
                self._passed_over.add(number)
                say(
                    f"checkpoint of round {number} cannot be used: {getattr(reason, 'what', reason)}; "
                    f"that of round {round} is used instead"
                )
            return loaded
        raise self._none_usable(list(passed_over.values()))

    def _none_usable(self, errors: list[CheckpointError]) -> CheckpointError:
        for error in errors:
            # Not the checkpoints are at fault but another file, and it can be put back.
            if isinstance(error, ChangedError):
                return error
        detail = "; ".join(map(str, errors)) or "there is none"
        return CheckpointError(f"{self._root} holds no usable checkpoint ({detail})")

    def newest_marks(self) -> Marks:
        """Return what the newest good checkpoint notes of other files; nothing where there is none."""
        for round in self.rounds():
            with contextlib.suppress(CheckpointError):
                marks: Marks = self._manifest(round).get("marks", NO_MARKS)
                return marks
        return NO_MARKS

    def load(self, round: int, check: Check = lambda round, marks: None) -> Loaded:
        """Read one checkpoint, checked against its digests; states that were not new in it are read when asked for."""
        refuse_way_out(self._path(round) / MANIFEST_FILE, self._home)
        lock = ReadLock(self._path(round))
        manifest = self._manifest(round)
        marks = manifest.get("marks", NO_MARKS)
        check(round, marks)
        tensors = self._tensors(self._path(round) / "server.safetensors", manifest["server"])
        states = {name: self._open_states(round, manifest, name, lock) for name in manifest["states"]}
        # Saving goes on from here: a client whose state does not change keeps the place that it has.
        self._loaded, self._vaults = dict(states), {}
        return Loaded(round, tensors, states, marks)

    def _open_states(self, round: int, manifest: dict[str, Any], name: str, lock: ReadLock) -> SavedStates:
        entry = manifest["states"][name]
        if manifest["format"] == EARLIER_FORMAT:
            return open_earlier_states(self._states, self._home, entry, lock)
        return open_states(self._path(round) / MANIFEST_FILE, self._states, self._home, entry, lock)

    def _tensors(self, path: Path, expected: Any) -> dict[str, Tensor]:
        refuse_way_out(path, self._home)
        return read_tensors(path, expected)

    def _manifest(self, round: int) -> dict[str, Any]:
        """Return a checkpoint's manifest, or say why it is damaged, foreign or of another format."""
        path = self._path(round)
        state = file_state(path / MANIFEST_FILE)  # before it is read: one that is written meanwhile is read again
        sealed = read_json(path / MANIFEST_FILE)
        manifest = sealed.get("manifest")
        if not isinstance(manifest, dict) or fault(manifest) or sealed.get("sha256") != _seal(manifest):
            raise CheckpointError(f"{path} is damaged: its manifest does not match its own SHA-256")
        if manifest.get("format") not in (EARLIER_FORMAT, FORMAT):
            raise CheckpointError(
                f"{path} has format {manifest.get('format')!r}; this version reads {EARLIER_FORMAT} and {FORMAT}"
            )
        if manifest.get("run") != self._run:
            raise CheckpointError(f"{path} belongs to another run ({manifest.get('run')}, not {self._run})")
        if manifest.get("round") != round:
            raise CheckpointError(f"{path} says that it is of round {manifest.get('round')}")
        shape = EARLIER_MANIFEST if manifest["format"] == EARLIER_FORMAT else MANIFEST
        check_structure(path / MANIFEST_FILE, manifest, shape)
        self._known[round] = _Known.of(state, manifest)
        return manifest

    def _what_is_known(self, round: int) -> _Known:
        """Return what a checkpoint refers to; its manifest is read if it is not known as it is."""
        known = self._known.get(round)
        if known is None or known.state != file_state(self._path(round) / MANIFEST_FILE):
            self._manifest(round)
        return self._known[round]

    def _forget_old(self, saved: int) -> None:
        """Keep the run's last two checkpoints, the named ones, those that are read, and the files they refer to."""
        own: dict[int, frozenset[str]] = {}
        for round in self.rounds():
            # One that is damaged or of another run is not counted among the last two, and is not removed.
            with contextlib.suppress(CheckpointError):
                own[round] = self._what_is_known(round).files
        # Those after the one that was saved were passed over, and the run comes to them again.
        before = [round for round in own if round <= saved]
        last = [round for round in before if round not in self._passed_over][:KEPT]
        for round in before:
            is_kept = round in self._kept or (self.best > 0 and round == self.best)
            if round not in last and not is_kept and not is_read(self._path(round)):
                _discard(self._path(round))
                del own[round]
                del self._known[round]
        # Their names must be gone before what they refer to is written over.
        sync_directory(self._root)
        for vault in self._vaults.values():
            vault.forget(own)
        wanted = frozenset[str]().union(*own.values())
        for file in self._states.iterdir():
            if file.suffix in STATE_FILES and file.name not in wanted:
                file.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a process that was killed in the middle of writing left behind."""
        refuse_link(self._root)
        for leftover in self._root.glob(".new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        refuse_link(self._states)
        remove_temporary_files(self._states)

    def _path(self, round: int) -> Path:
        return self._root / f"round-{round:06d}"

    @property
    def _home(self) -> Path:
        return self._root.parent

    @property
    def _states(self) -> Path:
        return self._root / "states"


def _discard(path: Path) -> None:
    """Remove a checkpoint at once: a half-removed one must not look like one."""
    if path.exists():
        # Under a name that `sweep` removes, should the process end in between.
        trash = path.with_name(f".new-trash-{path.name}-{os.getpid()}")
        shutil.rmtree(trash, ignore_errors=True)
        path.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)


def _seal(manifest: dict[str, Any]) -> str:
    return digest(json.dumps(manifest).encode())


def tensors_of(federation: Federation) -> dict[str, Tensor]:
    """Return the server's tensors for a checkpoint."""
    server = federation.server
    return {
        "w": server.w,
        **_prefixed("buffers", server.buffers),
        **_prefixed("server", server.kept.tensors()),
        **_prefixed("average", federation.average_kept.tensors()),
    }


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def restore(federation: Federation, round: int, tensors: dict[str, Tensor], states: Mapping[str, SavedStates]) -> None:
    """Put a checkpoint's contents into a fresh federation."""
    # All are checked before the first is put in place, so that no federation is restored by half.
    for name, expected in tensors_of(federation).items():
        _check_fits(name, tensors.get(name), expected)
    server = federation.server
    server.w = tensors["w"]
    server.buffers = {name: tensors[f"buffers/{name}"] for name in server.buffers}
    _fill("server", server.kept, tensors)
    _fill("average", federation.average_kept, tensors)
    for name, store in stores_of(federation).items():
        if name in states:
            store.adopt(states[name])
    federation.round = round


def _check_fits(name: str, tensor: Tensor | None, expected: Tensor) -> None:
    if tensor is None or tensor.shape != expected.shape or tensor.dtype != expected.dtype:
        raise CheckpointError(f"the checkpoint's {name!r} does not fit this task; was the model changed?")


def _fill(prefix: str, state: State, tensors: Mapping[str, Tensor]) -> None:
    for name in state:
        setattr(state, name, tensors[f"{prefix}/{name}"])


def stores_of(federation: Federation) -> dict[str, StateStore]:
    """Return the stores whose clients' states go into a checkpoint."""
    stores = {"clients": federation.clients, "records": federation.records}
    # Those of a plan are; a shadow's are not, and it is never saved.
    return {name: store for name, store in stores.items() if isinstance(store, StateStore)}
