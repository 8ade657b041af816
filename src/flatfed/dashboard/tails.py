"""Histories: their last rows, read backwards from the end, and rows that are added, from where reading stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from flatfed.dashboard.sealed_reading import open_within
from flatfed.runs.history import Row
from flatfed.runs.records.earlier_versions import row_of_today
from flatfed.runs.records.files import chained, fits_chain, opened_in_chain
from flatfed.runs.records.structure import fault_of_row

BLOCK = 16 * 2**10
"""Bytes that are read at once from the end."""
FARTHEST = 16
"""Blocks from the end in which a row is looked for."""
PIECE = 4 * 2**20
"""Bytes that are read at once from the front; no line is longer."""


def last_rows(path: Path, root: Path) -> Iterator[Row]:
    """Yield rows from the last one backwards, as far as is looked; one that is being written has no end yet."""
    try:
        file = open_within(path, root)
    except FileNotFoundError:
        return
    with file:
        for line in _lines_backwards(file):
            row = _parsed(line)
            if row is not None:
                yield row


def _lines_backwards(file: IO[bytes]) -> Iterator[bytes]:
    end = file.seek(0, os.SEEK_END)
    rest, has_end = b"", False
    for _ in range(FARTHEST):
        if end == 0:
            return
        start = max(0, end - BLOCK)
        file.seek(start)
        data, end = file.read(end - start) + rest, start
        if not has_end:
            # What follows the last line break is still being written.
            data, found, _ = data.rpartition(b"\n")
            has_end, rest = bool(found), b""
            if not found:
                continue
        lines = data.split(b"\n")
        if start > 0:
            rest = lines.pop(0)
        yield from reversed(lines)


def _parsed(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("round"), int):
        return None
    today = row_of_today(row)
    today.pop("seal", None)
    return None if fault_of_row(today) else today


class Follower:
    """Reads a history once, and then what is added to it.

    Attributes:
        generation: goes up when the history was cut back or replaced, and is read anew.
        damage: why it was read no further; empty where nothing is wrong.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path, self._root = path, root
        self.generation = 0
        self._begin(None)

    def _begin(self, inode: int | None) -> None:
        self._inode, self._offset, self._seal, self._line = inode, 0, "", 0
        self.damage = ""

    def restarted(self) -> bool:
        """Say whether the file is another than before, shorter, or was damaged; then it is read from its beginning."""
        try:
            found = self._path.lstat()
        except OSError:
            found = None
        inode = None if found is None else found.st_ino
        is_same = inode == self._inode and (found is None or found.st_size >= self._offset) and not self.damage
        if not is_same:
            self._begin(inode)
            self.generation += 1
        return not is_same

    def new_rows(self) -> Iterator[Row]:
        """Yield the rows that were added; a line that is being written waits."""
        if self.damage:
            return
        try:
            file = open_within(self._path, self._root)
        except FileNotFoundError:
            return
        with file:
            for line in self._new_lines(file):
                row = self._checked(line)
                if row is None:
                    return
                yield row

    def _new_lines(self, file: IO[bytes]) -> Iterator[bytes]:
        while True:
            file.seek(self._offset)
            piece = file.read(PIECE)
            whole, found, _ = piece.rpartition(b"\n")
            if not found:
                if len(piece) == PIECE:
                    self.damage = f"history.jsonl, line {self._line + 1} has no end"
                return
            for line in whole.split(b"\n"):
                self._offset += len(line) + 1
                self._line += 1
                yield line

    def _checked(self, written: bytes) -> Row | None:
        """Return a row whose seal fits; of another one, note the damage."""
        line, seal = opened_in_chain(written)
        self._seal = chained(line, self._seal)
        row = _parsed(line)
        if row is None or (seal and not fits_chain(seal, self._seal)):
            self.damage = f"history.jsonl, line {self._line} is damaged"
            return None
        return row


def number(value: Any) -> float | None:
    """Return a value where it is a number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if abs(as_float) < float("inf") else None
