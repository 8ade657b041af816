"""Reading files of run directories that may come from anybody: no links, no pipes, no files without bounds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.files import open_unlinked, read_json, refuse_link, refuse_way_out

MOST_BYTES = 4 * 2**20
"""Of a record; a run's own has some kilobytes."""
FileState = tuple[int, int, int]


def state_of(path: Path) -> FileState | None:
    """Return what shows that a file was written again, or replaced; None where there is none. A link is itself."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def read_record(path: Path, root: Path) -> dict[str, Any]:
    """Read a JSON object with its seal; one that is a link, lies outside of `root` or is too large is an error."""
    refuse_link(path)
    refuse_way_out(path, root)
    state = state_of(path)
    if state is not None and state[1] > MOST_BYTES:
        raise CheckpointError(f"{path.name} is too large to be a record: {state[1]:,} bytes")
    return read_json(path)


def open_within(path: Path, root: Path) -> IO[bytes]:
    """Open a file to read; a link, or a place outside of `root`, is an error."""
    refuse_way_out(path.parent, root)
    return os.fdopen(open_unlinked(path, os.O_RDONLY), "rb")
