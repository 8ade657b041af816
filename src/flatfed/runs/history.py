"""The history: one JSON line per round, append-only, readable while the run goes on.

A hash of each row is chained to the one before. Its first characters are the last entry of the line, `seal`, taken off
when the row is read: a row that was changed, lost or moved is noticed. A mark has the number of rows and the whole hash
of the last. Checkpoints note it, and so does the record of how the run ended: rows lost at the end are noticed too.

Lines of earlier versions have no seal. The hash is of the row without it, so marks hold when seals are added.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.earlier_versions import row_of_today
from flatfed.runs.records.files import (
    KEY,
    chained,
    fits_chain,
    naming,
    open_to_append,
    open_to_read,
    opened_in_chain,
    replace_file,
    sealed_in_chain,
)
from flatfed.runs.records.structure import RowsSoFar, fault_of_row

Row = dict[str, Any]
IN_MEMORY = 1000
"""Rows of a run with a file that stay in memory; when there are more, they are read when they are asked for."""


@dataclass(frozen=True)
class Recorded:
    """What a history file holds.

    Args:
        rows: the good rows, up to the first line that is damaged; many are read from the file when they are asked for.
        seals: after each of them, its hash chained to those before.
        damage: what is wrong with the line after them; empty where all are good.
    """

    rows: Collection[Row]
    seals: list[str]
    damage: str = ""

    @property
    def mark(self) -> dict[str, Any]:
        """How many rows there are, and the seal that covers them all: what a checkpoint notes."""
        return mark_of(len(self.rows), self.seals[-1] if self.seals else "")

    def holds(self, mark: dict[str, Any]) -> bool:
        """Say whether its first rows are those of a mark."""
        count = mark["rows"]
        if count == 0:
            return True
        return count <= len(self.rows) and bool(self.seals[count - 1] == mark["seal"])


class RowsOfFile(Collection[Row]):
    """The first rows of a history, read one by one whenever they are asked for: memory for one row."""

    def __init__(self, path: Path, count: int) -> None:
        self._path, self._count = path, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        return itertools.islice(self._rows(), self._count)

    def _rows(self) -> Iterator[Row]:
        for line in _lines(self._path):
            row = _parsed(opened_in_chain(line)[0])
            assert row is not None  # it was, when it was checked
            yield row_of_today(row)

    def __contains__(self, row: object) -> bool:
        return any(row == one for one in self)


def mark_of(rows: int, seal: str) -> dict[str, Any]:
    """Return what a checkpoint notes of a history."""
    return {"rows": rows, "seal": seal}


class History:
    """The rows of a run that trains: in a file of JSON lines where there is a path, otherwise in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: list[Row] | None = []
        self._file: IO[bytes] | None = None
        self._seal = ""
        self.count = 0
        self.last: Row | None = None

    @property
    def rows(self) -> list[Row]:
        """All rows; the many of a long run are read from its file."""
        if self._rows is not None:
            return self._rows
        assert self._path is not None
        return read_rows(self._path)

    @property
    def mark(self) -> dict[str, Any]:
        """How many rows there are, and the seal that covers them all."""
        return mark_of(self.count, self._seal)

    def append(self, row: Row) -> None:
        """Add a row; it is in the file when this returns."""
        line, seal = self._sealed(row)
        if self._path is not None:
            with naming(self._path):
                self._write(self._path, line)
        self._keep(row, seal)

    def _sealed(self, row: Row) -> tuple[bytes, str]:
        """Return the line of the next row, and its hash chained to those before."""
        line = json.dumps(row).encode()
        seal = chained(line, self._seal)
        return sealed_in_chain(line, seal) + b"\n", seal

    def _write(self, path: Path, line: bytes) -> None:
        if self._file is None:
            self._file = open_to_append(path)
        self._file.write(line)
        # Not synced: rows must be on the disk only before a checkpoint counts on them, and `sync` is called then.
        self._file.flush()

    def _keep(self, row: Row, seal: str) -> None:
        """Count a row that is in the file; the next is chained to it."""
        self.count += 1
        self.last, self._seal = row, seal
        if self._rows is not None:
            self._rows.append(row)
        if self._path is not None and self.count > IN_MEMORY:
            self._rows = None

    def sync(self) -> None:
        """Force the file to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def begin(self, rows: Iterable[Row]) -> None:
        """Begin with these rows, in the place of what there was; they may be read from the old file meanwhile."""
        # Closed first: rows would otherwise go on into the old file, not into the one that replaces it.
        self.close()
        self._seal, self.count, self.last, self._rows = "", 0, None, []
        lines = map(self._begun, rows)
        if self._path is not None:
            replace_file(self._path, lines)
        else:
            deque(lines, maxlen=0)  # all of them, for what is kept of each

    def _begun(self, row: Row) -> bytes:
        """Keep one of the rows to begin with, and return its line."""
        line, seal = self._sealed(row)
        self._keep(row, seal)
        return line

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_history(path: Path) -> Recorded:
    """Read the rows that are whole; what is still being written, or was torn off by a crash, is left out."""
    rows: list[Row] = []
    seals: list[str] = []
    so_far = RowsSoFar()
    chain = _Chain()
    torn = 0
    for number, written in enumerate(_lines(path), 1):
        line, seal = opened_in_chain(written)
        row = _parsed(line)
        if row is None and not seal:
            torn = torn or number
            continue
        if torn or row is None:
            # A crash tears the last line only, its seal with it: this is damage of another kind, and rows may be lost.
            return _recorded(path, rows, seals, f"{path}, line {torn or number} is damaged")
        # One that is still in the row has not the form in which it was written.
        if KEY in row or not chain.takes(line, seal):
            return _recorded(path, rows, seals, f"{path}, line {number} is damaged")
        today = row_of_today(row)
        problem = fault_of_row(today) or so_far.fault(today)
        if problem:
            return _recorded(path, rows, seals, f"{path}, line {number}: {problem}")
        seals.append(chain.seal)
        if len(rows) < IN_MEMORY:
            rows.append(today)
    return _recorded(path, rows, seals)


class _Chain:
    """The hashes of lines that are read one after the other, each chained to those before.

    Attributes:
        seal: that of the last line.
    """

    def __init__(self) -> None:
        self.seal = ""
        self._is_sealed: bool | None = None

    def takes(self, line: bytes, seal: str) -> bool:
        """Go on with a line, and say whether its seal fits: where the first line has none, none has one."""
        self.seal = chained(line, self.seal)
        if self._is_sealed is None:
            self._is_sealed = bool(seal)
        if self._is_sealed:
            return fits_chain(seal, self.seal)
        return not seal


def _recorded(path: Path, first: list[Row], seals: list[str], damage: str = "") -> Recorded:
    """Return what was read: the rows themselves, or, of a long history, where they are."""
    rows = first if len(first) == len(seals) else RowsOfFile(path, len(seals))
    return Recorded(rows, seals, damage)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their ends; of one that is not there, none."""
    if not path.exists():
        return
    with open_to_read(path) as file:
        for line in file:
            yield line.removesuffix(b"\n")


def require_good(path: Path, recorded: Recorded) -> Recorded:
    """Refuse a history with a damaged line."""
    if recorded.damage:
        raise CheckpointError(
            f"{recorded.damage}: put the file back as it was; `flatfed resume` goes on from a checkpoint before that "
            "line, if there is one"
        )
    return recorded


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a history; a damaged line is an error."""
    return list(require_good(path, read_history(path)).rows)


def salvaged_rows(path: Path) -> list[Row]:
    """Return every row that can be read, whether or not it was changed since it was written."""
    good: list[Row] = []
    so_far = RowsSoFar()
    for line in _lines(path):
        parsed = _parsed(opened_in_chain(line)[0])
        if parsed is None:
            continue
        parsed.pop(KEY, None)  # where it was changed itself
        row = row_of_today(parsed)
        # One after the other: what comes twice, or after a later one, would spoil the file for everyone.
        if not fault_of_row(row) and not so_far.fault(row):
            good.append(row)
    return good


def _parsed(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("round"), int):
        return None
    return row
