"""How files of a run directory are opened: it may come from somebody else.

A link in it could lead to any file, and a pipe in the place of a file would let its reader wait for ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from flatfed.core.errors import CheckpointError
from flatfed.machine import NotAFileError, open_regular, require_regular


@contextmanager
def _only_files(path: Path) -> Iterator[None]:
    """Say which file of a run is none."""
    try:
        yield
    except (NotAFileError, IsADirectoryError) as error:
        raise CheckpointError(f"{path} cannot be used: {error.strerror}; remove it") from None


def open_unlinked(path: Path, flags: int) -> int:
    """Open a file of a run directory, as `os.open` does; a link in its place, or what is no file, is an error."""
    try:
        with _only_files(path):
            return open_regular(path, flags | os.O_NOFOLLOW)
    except OSError:
        refuse_link(path)
        raise


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file of a run directory; it may be a link, but only to a file."""
    with _only_files(path):
        return os.fdopen(open_regular(path), "rb")


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file of a run directory."""
    with open_to_read(path) as file:
        return file.read()


def refuse_other_than_file(path: Path) -> None:
    """Refuse what is no file, before something reads it by its name."""
    with _only_files(path):
        require_regular(path)


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
