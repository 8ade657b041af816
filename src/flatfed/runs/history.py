"""The history: one JSON line per round, append-only, readable while the run goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.files import replace_file

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
            self._file.flush()

    def sync(self) -> None:
        """Force the file to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def cut(self, round: int) -> None:
        """Drop rows from `round` on: they will be made again."""
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
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    found = [_row(line) for line in lines]
    while found and found[-1] is None:
        found.pop()
    rows = [row for row in found if row is not None]
    if len(rows) < len(found):
        raise CheckpointError(f"{path}, line {found.index(None) + 1} is damaged")
    return rows


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("round"), int) else None
