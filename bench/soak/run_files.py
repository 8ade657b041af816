"""A run directory seen from outside: rows, checkpoints, sizes, and whether two runs are the same to the bit."""

from __future__ import annotations

import json
import math
import os
import struct
from pathlib import Path
from typing import Any

INDEX_ENTRY = struct.Struct("<QQ32s")
"""An entry of an index of client states: client, place, SHA-256."""

WIDTHS = {"float64": 8, "int64": 8, "float32": 4}
"""Bytes of a number, by the types that states have here."""

TIMES = ("seconds", "client_seconds", "seal")
"""What differs from run to run in a line of the history: the times, and the seal, which covers them."""


class Rows:
    """Counts the rows that a process adds to a history.

    A resumption replaces the history by a shorter one, with the rows up to its checkpoint. Nothing is counted before.
    """

    def __init__(self, run: Path) -> None:
        self._path = run / "history.jsonl"
        self._old = self._identity()
        self._offset = 0
        self._count = 0
        self._first: int | None = None

    def count(self) -> int:
        """Return how many rows there are now; 0 while the process has not added one."""
        if self._identity() in (None, self._old):
            return 0
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        self._offset += len(new)
        self._count += new.count(b"\n")
        if self._first is None:
            self._first = self._count
        if self._count == self._first and self._old is not None:
            return 0
        return self._count

    def _identity(self) -> int | None:
        """Return what tells the file from another that took its name."""
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return None


def count_rows(run: Path) -> int:
    """Return how many whole rows the history has."""
    return (run / "history.jsonl").read_bytes().count(b"\n")


def status(run: Path) -> str:
    """Return how a run says that it stands."""
    path = run / "status.json"
    if not path.exists():
        return "none"
    return str(json.loads(path.read_text())["status"])


def newest_checkpoint(run: Path) -> Path:
    """Return the newest checkpoint."""
    return max((run / "checkpoints").glob("round-*"))


def rounds_saved(run: Path) -> int:
    """Return how many rounds the newest checkpoint holds."""
    return int(newest_checkpoint(run).name.removeprefix("round-"))


def sizes(run: Path) -> dict[str, int]:
    """Return the number of files, their bytes without the history, and the bytes of the history."""
    files = bytes_of_others = history = 0
    # Not `rglob`: it stumbles over a directory that is removed meanwhile.
    for folder, _, names in os.walk(run):
        for name in names:
            try:
                size = Path(folder, name).stat().st_size
            except FileNotFoundError:
                continue  # it was removed meanwhile
            files += 1
            if name == "history.jsonl":
                history = size
            else:
                bytes_of_others += size
    return {"files": files, "bytes": bytes_of_others, "history_bytes": history}


def differences(found: Path, expected: Path) -> list[str]:
    """Return in which parts two finished runs differ; nothing where they are the same to the bit."""
    parts = {
        "server tensors": (server_tensors(found), server_tensors(expected)),
        "client states": (client_states(found), client_states(expected)),
        "history rows": (rows_without_times(found), rows_without_times(expected)),
    }
    return [name for name, (one, other) in parts.items() if one != other]


def counts(run: Path) -> dict[str, int]:
    """Return how much was compared."""
    return {
        "server tensors": len(server_tensors(run)),
        "client states": sum(map(len, client_states(run).values())),
        "history rows": len(rows_without_times(run)),
    }


def server_tensors(run: Path) -> dict[str, Any]:
    """Return the tensors of the server in the newest checkpoint, as bytes."""
    return tensors(newest_checkpoint(run) / "server.safetensors")


def client_states(run: Path) -> dict[str, dict[str, Any]]:
    """Return every client's state of the newest checkpoint, by store and client, as bytes."""
    manifest = json.loads((newest_checkpoint(run) / "checkpoint.json").read_text())["manifest"]
    return {store: _states(run / "checkpoints/states", entry) for store, entry in manifest["states"].items()}


def _states(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the bytes in each client's place; the last entry of a client in the index counts."""
    log = (folder / entry["index"]["file"]).read_bytes()[: entry["index"]["entries"] * INDEX_ENTRY.size]
    places = {client: place for client, place, _ in INDEX_ENTRY.iter_unpack(log)}
    size = sum(WIDTHS[dtype] * math.prod(shape) for _, dtype, shape in entry["form"])
    with (folder / entry["file"]).open("rb") as file:
        return {str(client): os.pread(file.fileno(), size, place * size) for client, place in places.items()}


def tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a file in a form whose equality is equality of bits."""
    from safetensors.numpy import load_file

    return {name: (str(value.dtype), value.shape, value.tobytes()) for name, value in load_file(path).items()}


def rows_without_times(run: Path) -> list[str]:
    """Return the rows of the history without the entries that differ from run to run."""
    rows = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [json.dumps({name: value for name, value in row.items() if name not in TIMES}) for row in rows]


def litter(run: Path) -> list[str]:
    """Return what lies in a run directory and belongs to nothing: temporary files, states that nobody refers to."""
    wanted: set[str] = set()
    for file in run.glob("checkpoints/round-*/checkpoint.json"):
        for entry in json.loads(file.read_text())["manifest"]["states"].values():
            wanted.update((entry["file"], entry["index"]["file"]))
    hidden = [path for path in run.rglob("*") if path.name.startswith(".") and path.name != ".lock"]
    unused = [path for path in run.glob("checkpoints/states/*") if path.name not in wanted]
    return sorted(str(path.relative_to(run)) for path in {*hidden, *unused})
