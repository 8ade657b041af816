"""Writing files so that a crash at any byte leaves either the old content or the new."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and force it to the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes) -> None:
    """Give a file new content at once: a temporary name, synced, then renamed over the old one."""
    # In the same directory, as a rename is atomic only within a file system; two processes may write at once.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    write_synced(temporary, data)
    # Its bytes are on the disk by now: otherwise the name could lead to an empty file after a crash.
    temporary.replace(path)
    # The rename is an entry of the directory, and can be lost until that is synced too.
    sync_directory(path.parent)


def remove_temporary_files(directory: Path) -> None:
    """Remove what `replace_file` left in a directory when its process was killed."""
    for leftover in directory.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Force a directory's entries to the disk, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file."""
    replace_file(path, (json.dumps(value, indent=1, sort_keys=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say which file is wrong and why."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:  # RecursionError: nested without end
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} does not hold a JSON object")
    return value
