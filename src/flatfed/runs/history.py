"""The history: one JSON line per round, append-only, readable while the run goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.earlier_versions import row_of_today
from flatfed.runs.files import replace_file
from flatfed.runs.structure import fault_of_row, fault_of_rows

Row = dict[str, Any]


class History:
    """Rows in memory and, where there is a path, in a file of JSON lines."""

    def __init__(self, path: Path | None, rows: list[Row] | None = None) -> None:
        self.rows: list[Row] = list(rows or [])
        self._path = path
        self._file: IO[bytes] | None = None

    def append(self, row: Row) -> None:
        """Add a row; it is in the file when this returns."""
        self.rows.append(row)
        if self._path is not None:
            if self._file is None:
                self._file = self._path.open("ab")
            self._file.write(json.dumps(row).encode() + b"\n")
            # Not synced: rows must be on the disk only before a checkpoint counts on them, and `sync` is called then.
            self._file.flush()

    def sync(self) -> None:
        """Force the file to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def cut(self, round: int) -> None:
        """Drop rows from `round` on: they will be made again."""
        # Closed first: rows would otherwise go on into the old file, not into the one that replaces it.
        self.close()
        self.rows = [row for row in self.rows if row["round"] < round]
        if self._path is not None:
            replace_file(self._path, b"".join(json.dumps(row).encode() + b"\n" for row in self.rows))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_rows(path: Path) -> list[Row]:
    """Read the rows that are whole; what is still being written, or was torn off by a crash, is left out."""
    if not path.exists():
        return []
    rows = [_row(line) for line in path.read_bytes().split(b"\n")]
    while rows and rows[-1] is None:  # after the last line break, or torn off
        rows.pop()
    whole = [_whole(path, number, row) for number, row in enumerate(rows, start=1)]
    problem = fault_of_rows(whole)
    if problem:
        raise CheckpointError(f"{path}: {problem}")
    return whole


def _whole(path: Path, number: int, row: Row | None) -> Row:
    if row is None:
        # A crash tears the last line only, so this is damage of another kind, and rows may be lost.
        raise CheckpointError(f"{path}, line {number} is damaged")
    problem = fault_of_row(row)
    if problem:
        raise CheckpointError(f"{path}, line {number}: {problem}")
    return row


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):  # RecursionError: nested without end
        return None
    if not isinstance(row, dict) or not isinstance(row.get("round"), int):
        return None
    return row_of_today(row)
