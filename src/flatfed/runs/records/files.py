"""Files of a run: opened, sealed, locked, read, and written so that a crash leaves the old content or the new.

A run directory may come from somebody else. A link in it could lead to any file, and a pipe in the place of a file
would let its reader wait for ever. A SHA-256, the seal, is written with what it covers, so that a changed file is
refused and never taken for results. The lock says who writes a run directory, and whether anybody does.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.machine import NotAFileError, open_regular, require_regular

KEY = "seal"
FORMAT = 2
"""The format of a record that carries a seal; those of format 1 are of earlier versions."""

SHORT = 16
"""How many characters of a hash a line of many carries, to stay short: a change goes unseen once in 2**64."""
SHORT_SEAL = re.compile(rf', "{KEY}": "([0-9a-f]{{{SHORT}}})"}}\Z'.encode())


def digest(data: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def seal_of(value: Mapping[str, Any]) -> str:
    """Return the seal of a JSON object; the order of its keys and its white space do not matter."""
    return digest(_canonical(value))


def _canonical(value: Mapping[str, Any]) -> bytes:
    """Return a JSON object in one form, whatever the order of its keys."""
    # Read back first: keys that are numbers become text, and are then in another order.
    return json.dumps(json.loads(json.dumps(value)), sort_keys=True).encode()


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its seal."""
    return {**value, KEY: seal_of(value)}


def is_sealed(value: Mapping[str, Any]) -> bool:
    """Say whether a JSON object carries a seal."""
    return KEY in value


def should_be_sealed(value: Mapping[str, Any]) -> bool:
    """Say whether a JSON object is of a format that has a seal."""
    return value.get("format") == FORMAT


def opened(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a sealed JSON object without its seal; None where the two do not agree."""
    content = {name: entry for name, entry in value.items() if name != KEY}
    try:
        expected = seal_of(content)
    except RecursionError:  # nested more deeply than anything that was ever written
        return None
    if value[KEY] != expected:
        return None
    return content


def chained(line: bytes, before: str) -> str:
    """Return the hash of a line and of the hash of what stands `before` it."""
    return digest(before.encode() + line)


def line_seal(value: Mapping[str, Any], before: str) -> str:
    """Return the seal of one line of JSON, which also covers the seal of what stands `before` it."""
    return chained(_canonical(value), before)


def sealed_line(value: Mapping[str, Any], before: str) -> bytes:
    """Return a line of JSON with its seal."""
    return json.dumps({**value, KEY: line_seal(value, before)}).encode() + b"\n"


def sealed_in_chain(line: bytes, chain: str) -> bytes:
    """Return a JSON object in a line, sealed by the chained hash of the lines up to it."""
    return line.removesuffix(b"}") + f', "{KEY}": "{chain[:SHORT]}"}}'.encode()


def opened_in_chain(line: bytes) -> tuple[bytes, str]:
    """Return a line as it was before it was sealed in a chain, and its seal; empty where there is none."""
    found = SHORT_SEAL.search(line)
    if found is None:
        return line, ""
    return line[: found.start()] + b"}", found[1].decode()


def fits_chain(seal: str, chain: str) -> bool:
    """Say whether a line's seal is that of the chained hash of the lines up to it."""
    return seal == chain[:SHORT]


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
    # In the same directory, as a rename is atomic only within a file system. Two processes may write at once, and on
    # machines that share a folder they may have the same number.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.{os.getpid()}.tmp")
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
    return directory.is_dir() and may_write(directory, os.X_OK)


def may_write(path: Path, more: int = 0) -> bool:
    """Say whether this process has the right to write something that is there, and `more` rights of `os.access`."""
    effective = os.access in os.supports_effective_ids  # as writing goes by them
    return os.access(path, os.W_OK | more, effective_ids=effective)


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
        value = json.loads(read_whole(path).decode("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} does not hold a JSON object")
    return value


FileState = tuple[int, int, int]


def file_state(path: Path) -> FileState | None:
    """Return what shows that a file was written again, or replaced; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


TRIES, PAUSE_SECONDS = 5, 0.02

_HELD: set[Path] = set()
"""Locks of this process: opening and closing their files again would let them go."""


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Hold a run directory for writing; where another process does, that is an error."""
    path = run.resolve() / ".lock"
    if path in _HELD:
        raise _busy(run)
    # Not emptied, and no link: it may lead to a file of the user.
    with os.fdopen(open_unlinked(path, os.O_RDWR | os.O_CREAT), "r+b") as file:
        if not _locked(file.fileno()):
            raise _busy(run)
        _HELD.add(path)
        try:
            yield
        finally:
            _HELD.discard(path)


class BusyError(ConfigError):
    """Another process writes a run, or went on with it."""


def _busy(run: Path) -> BusyError:
    return BusyError(f"{run} is being written by another process; wait for it or stop it")


def refuse_unwritable(run: Path) -> None:
    """Refuse a run that is to go on and cannot be written: now, before anybody waits for it."""
    lock = run / ".lock"
    folders = (run, run / "checkpoints", run / "checkpoints/states")
    if not all(map(is_writable, folders)) or (lock.exists() and not may_write(lock)):
        raise ConfigError(
            f"{run} cannot be written, and a run that goes on adds to it; go on with a copy, or get the right to write"
        )


def _locked(descriptor: int) -> bool:
    """Take the lock; `show` holds it for a moment when it looks, so it is tried a few times."""
    for _ in range(TRIES):
        try:
            # A record lock, not flock: worker processes do not inherit it, so it ends with this process.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(PAUSE_SECONDS)
        else:
            return True
    return False


def is_held(run: Path) -> bool:
    """Say whether a process writes a run directory."""
    path = run.resolve() / ".lock"
    # Not through the file where this process holds the lock: closing it again would let the lock go.
    if path in _HELD or path.is_symlink() or not path.exists():
        return path in _HELD
    try:
        # To read and shared, which is all that may be had of a run of somebody else, or on a disk without writing.
        with os.fdopen(open_unlinked(path, os.O_RDONLY), "rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except OSError:
        return True
