"""Unpacking what was fetched: whole or not at all, and nothing outside the folder that it is meant for."""

from __future__ import annotations

import gzip
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from flatfed.core.errors import ConfigError

TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
ZIP = ".zip"
CHUNK = 1 << 20
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)
"""What the libraries raise at a damaged archive."""


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar or zip archive into a folder, or a gzipped file beside itself; other files stay as they are."""
    with _named_errors(archive):
        # gzip takes an empty file for empty content, without an error.
        if archive.stat().st_size == 0:
            raise EOFError("it is empty")
        if archive.name.endswith((*TAR, ZIP)):
            _unpack_folders(archive, into)
        elif archive.suffix == ".gz":
            _unpack_file(archive)


def _unpack_file(archive: Path) -> None:
    target = archive.with_suffix("")
    # Beside the target, because a move is atomic only within one file system.
    temporary = target.with_name(f".{target.name}.unpacking")
    try:
        with gzip.open(archive) as packed:
            _write(packed, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _unpack_folders(archive: Path, into: Path) -> None:
    temporary = into / f".{archive.name}.unpacking"
    # A process that was killed may have left half an archive there.
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for name, content in _members(archive):
            _write(content, temporary / _inside(archive, name))
        # Only a whole archive is moved, so that a damaged one leaves nothing behind.
        _move(temporary, into)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an archive, each with its name."""
    if archive.suffix == ZIP:
        return _zip(archive)
    return _tar(archive)


def _write(content: IO[bytes] | gzip.GzipFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        shutil.copyfileobj(content, file, CHUNK)


def _tar(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as content:
        for member in content:
            if not member.isdir():
                yield member.name, _tar_file(archive, content, member)


def _tar_file(archive: Path, content: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Open a member that must be a plain file: a link could lead out of the folder."""
    file = content.extractfile(member) if member.isfile() else None
    if file is None:
        raise ConfigError(f"{archive} is not unpacked: {member.name} is a link or a device, not a file")
    return file


def _zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            if not member.is_dir():
                with content.open(member) as file:
                    yield member.filename, file


def _inside(archive: Path, name: str) -> PurePosixPath:
    """Return a member's path, which must not lead out of the folder."""
    # Archives made on Windows may have backslashes, behind which `..` would hide.
    path = PurePosixPath(name.replace("\\", "/"))
    if not _stays_inside(path):
        raise ConfigError(f"{archive} is not unpacked: its member {name!r} leads out of the folder")
    return path


def _stays_inside(path: PurePosixPath) -> bool:
    if not path.parts or path.is_absolute():
        return False
    # On Windows a drive leads elsewhere, although such a path counts as relative here.
    has_drive = ":" in path.parts[0]
    return not has_drive and ".." not in path.parts


def _move(temporary: Path, into: Path) -> None:
    """Move everything into place: a folder at once where it is new, else file by file."""
    for entry in sorted(temporary.iterdir()):
        target = into / entry.name
        # A folder that is there may hold other files, which must stay.
        if entry.is_dir() and target.is_dir():
            _move(entry, target)
        else:
            entry.replace(target)


@contextmanager
def _named_errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGE as error:
        raise ConfigError(f"{archive} is damaged ({error}); remove it and get it again") from None
