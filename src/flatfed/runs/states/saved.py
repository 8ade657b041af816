"""The client states of a checkpoint: known by its index, and read when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors
from torch import Tensor

from flatfed.core.errors import CheckpointError
from flatfed.core.method.messages import unpack
from flatfed.core.method.state import State
from flatfed.runs.records.files import read_whole, refuse_way_out
from flatfed.runs.states.form import StateForm
from flatfed.runs.states.index_log import read_index
from flatfed.runs.states.state_file import Ref, StateFile


class SavedStates:
    """Where the states of a checkpoint lie, by client; one that is damaged is an error when it is read."""

    def __init__(self, refs: Mapping[int, Ref], file: StateFile | None) -> None:
        self.refs, self.file = dict(refs), file

    def items(self) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Yield each client with its state."""
        return ((client, ref.source.read(ref.place, ref.digest).tensors()) for client, ref in self.refs.items())


def open_states(manifest: Path, folder: Path, home: Path, entry: Mapping[str, Any], lock: object) -> SavedStates:
    """Return what a manifest refers to; its index and the states that were new in it are checked.

    Those that were there before are shared with the checkpoint before it. They are checked when they are read: then it
    takes no longer to open a run whose clients are many.
    """
    form = StateForm.from_json(manifest, entry["form"])
    # The last part of the names only: a manifest must not lead out of the directory, and no link may.
    path, index = folder / Path(entry["file"]).name, folder / Path(entry["index"]["file"]).name
    for each in (path, index):
        refuse_way_out(each, home)
    entries = read_index(index, entry["index"])
    try:
        file = StateFile.open(path, form, lock)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    refs = {client: Ref(file, place, digest) for client, place, digest in entries}
    if max((ref.place for ref in refs.values()), default=-1) >= file.places:
        raise CheckpointError(f"{path} is damaged: it is shorter than its index says")
    for _, place, digest in entries[max(0, len(entries) - entry["new"]) :]:
        file.check(place, digest)
    return SavedStates(refs, file)


def indexed_places(folder: Path, entry: Mapping[str, Any]) -> frozenset[int]:
    """Return the places that a manifest refers to."""
    entries = read_index(folder / Path(entry["index"]["file"]).name, entry["index"])
    return frozenset({client: place for client, place, _ in entries}.values())


class EarlierStates:
    """States as earlier versions wrote them: a safetensors file for each client."""

    def __init__(self, files: list[Path], lock: object) -> None:
        self._files, self._lock = files, lock

    def read(self, place: int, digest: bytes) -> State:
        """Return the state in the n-th file."""
        return State(read_tensors(self._files[place], digest.hex()))


def open_earlier_states(folder: Path, home: Path, entries: Mapping[str, str], lock: object) -> SavedStates:
    """Return what a manifest of an earlier version refers to; every file is checked."""
    named = {int(client): entry.rsplit(":", 1) for client, entry in entries.items()}
    files = [folder / Path(file).name for file, _ in named.values()]
    for path in files:
        refuse_way_out(path, home)
    source = EarlierStates(files, lock)
    refs = {client: Ref(source, n, bytes.fromhex(sha)) for n, (client, (_, sha)) in enumerate(named.items())}
    saved = SavedStates(refs, None)
    # A damaged one must show before anything is restored. Each is let go: all together may not fit into memory.
    for _ in saved.items():
        pass
    return saved


def read_tensors(path: Path, expected: Any) -> dict[str, Tensor]:
    """Read a safetensors file of a checkpoint; one that does not have its SHA-256 is an error."""
    try:
        data = read_whole(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise CheckpointError(f"{path} is damaged: its SHA-256 does not match the manifest")
    try:
        return unpack(data)
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file: {error}") from None
