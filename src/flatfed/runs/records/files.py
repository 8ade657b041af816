"""Writing files so that a crash at any byte leaves either the old content or the new."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.records.links import open_unlinked
from flatfed.runs.records.sealing import is_sealed, opened, sealed, should_be_sealed

WHAT_TO_DO = "put it back as it was"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system name this file: where a write fails, the system names none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error


def write_synced(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a new file, whole or part by part, and force it to the disk; one that is there already is an error."""
    with naming(path), os.fdopen(open_unlinked(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.writelines([data] if isinstance(data, bytes) else data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Give a file new content at once: a temporary name, synced, then renamed over the old one."""
    # In the same directory, as a rename is atomic only within a file system; two processes may write at once.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    # A process of the same number may have been killed here, or somebody may have put a link there.
    temporary.unlink(missing_ok=True)
    try:
        with naming(path):
            write_synced(temporary, data)
    except OSError:
        # Half a file would only take room, which may be what was missing.
        temporary.unlink(missing_ok=True)
        raise
    # Its bytes are on the disk by now: otherwise the name could lead to an empty file after a crash.
    temporary.replace(path)
    # The rename is an entry of the directory, and can be lost until that is synced too.
    sync_directory(path.parent)


def is_writable(directory: Path) -> bool:
    """Say whether files can be made in a directory, or the directory itself where it is not there yet."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    effective = os.access in os.supports_effective_ids  # as writing goes by them
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK, effective_ids=effective)


def remove_temporary_files(directory: Path) -> None:
    """Remove what `replace_file` left in a directory when its process was killed."""
    for leftover in directory.glob(".*.tmp"):
        # A command that measures or reports may be in the middle of writing: it does not hold the run's lock.
        if not _is_being_written(leftover):
            leftover.unlink(missing_ok=True)


def _is_being_written(temporary: Path) -> bool:
    """Say whether the process that a temporary file is named after lives, and is not this one."""
    pid = temporary.suffixes[-2:-1]
    if not pid or not pid[0][1:].isdecimal() or int(pid[0][1:]) == os.getpid():
        return False
    try:
        os.kill(int(pid[0][1:]), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


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


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file; the object is written with its seal.

    Its format should come first: the seal comes last, so that no part that is cut out takes both with it and leaves
    something to read.
    """
    replace_file(path, (json.dumps(sealed(value), indent=1, sort_keys=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say which file is wrong and why.

    A seal is checked where there is one. Files of earlier versions have none; one of today's format must have it.
    """
    value = _json_object(path)
    if is_sealed(value):
        content = opened(value)
        if content is None:
            raise CheckpointError(f"{path} was changed after it was written: {WHAT_TO_DO}")
        return content
    if should_be_sealed(value):
        raise CheckpointError(f"{path} has lost its seal, so it was changed after it was written: {WHAT_TO_DO}")
    return value


def _json_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} does not hold a JSON object")
    return value
