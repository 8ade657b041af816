"""Histories: their last rows, read backwards from the end, and rows that are added, from where reading stopped."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from flatfed.dashboard.sealed_reading import FileState, open_within, state_of
from flatfed.runs.history import Row
from flatfed.runs.records.earlier_versions import row_of_today
from flatfed.runs.records.files import chained, fits_chain, opened_in_chain

BLOCK = 16 * 2**10
"""Bytes that are read at once from the end."""
FARTHEST = 16
"""Blocks from the end in which a row is looked for."""
PIECE = 4 * 2**20
"""Bytes that are read at once from the front; no line is longer."""
LARGEST = 1e100
"""Beyond it nothing is drawn: sums of smaller numbers, and a hundred times as much, are finite."""
MOST_ROUNDS = 2**53
"""What a browser counts exactly."""
GENERATIONS = itertools.count(1)
"""Of all histories: whoever followed one file never takes another for the rest of it."""


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
    if not isinstance(row, dict):
        return None
    today = row_of_today(row)
    return today if _can_be_shown(today) else None


def _can_be_shown(row: Row) -> bool:
    """Say whether what is used here has its form; to check all of every row would take longer than reading it."""
    round, rejected = row.get("round"), row.get("rejected", [])
    if type(round) is not int or not 0 <= round < MOST_ROUNDS or not isinstance(row.get("watch", {}), dict):
        return False
    return isinstance(rejected, list) and all(isinstance(one, dict) for one in rejected)


class HistoryFollower:
    """Reads a history once, and then what is added to it.

    Attributes:
        generation: another, and higher, when the history was cut back or replaced, and is read anew.
        damage: why it was read no further; empty where nothing is wrong.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path, self._root = path, root
        self.generation = next(GENERATIONS)
        self._state: FileState | None = None
        self._begin(None)

    def _begin(self, inode: int | None) -> None:
        self._inode, self._offset, self._seal, self._line = inode, 0, "", 0
        self._is_sealed: bool | None = None
        self.damage = ""

    def restarted(self) -> bool:
        """Say whether the file is another than before, shorter, or was damaged and written to since.

        Then it is read from its beginning.
        """
        before, state = self._state, state_of(self._path)
        self._state = state
        inode = None if state is None else state[0]
        is_longer = state is None or state[1] >= self._offset
        is_mended = bool(self.damage) and state != before
        is_same = inode == self._inode and is_longer and not is_mended
        if not is_same:
            self._begin(inode)
            self.generation = next(GENERATIONS)
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
                    self._spoil(self._line + 1, "has no end")
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
        if self._is_sealed is None:
            self._is_sealed = bool(seal)
        # Where the first line has no seal, none has one: it is of an earlier version.
        fits = fits_chain(seal, self._seal) if self._is_sealed else not seal
        if row is None or not fits:
            self._spoil(self._line, "is damaged")
            return None
        return row

    def _spoil(self, line: int, what: str) -> None:
        """Note a damage; under another generation, so that it is reported also where no row comes with it."""
        self.damage = f"history.jsonl, line {line} {what}"
        self.generation = next(GENERATIONS)


def number(value: Any) -> float | None:
    """Return a value where it is a number that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if abs(as_float) < LARGEST else None
