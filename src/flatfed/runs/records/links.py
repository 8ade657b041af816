"""No way out of a run directory: it may come from somebody else, and a link in it could lead to any file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from flatfed.core.errors import CheckpointError


def open_unlinked(path: Path, flags: int) -> int:
    """Open a file of a run directory, as `os.open` does; a symbolic link in its place is an error."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError:
        refuse_link(path)
        raise


def open_to_append(path: Path) -> IO[bytes]:
    """Open a file of a run directory, to add to its end."""
    return os.fdopen(open_unlinked(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")


def make_folder(path: Path) -> None:
    """Make a folder of a run directory, if it is not there; a link in its place is an error."""
    refuse_link(path)
    path.mkdir(parents=True, exist_ok=True)


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link where a run has a file or folder of its own."""
    if path.is_symlink():
        raise CheckpointError(f"{path} is a link, and what is written there would land elsewhere; remove the link")


def refuse_way_out(path: Path, home: Path) -> None:
    """Refuse a file of the run directory `home` that a link on the way to it puts outside."""
    if not path.resolve().is_relative_to(home.resolve()):
        raise CheckpointError(f"{path} is a link that leads out of {home}; put the file itself there")
