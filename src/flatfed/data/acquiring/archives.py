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


def unpack(archive: Path, into: Path) -> None:
    """Unpack a tar or zip archive into a folder, or a gzipped file beside itself; other files stay as they are."""
    with _named_errors(archive):
        if archive.stat().st_size == 0:
            raise EOFError("it is empty")
        if archive.name.endswith(TAR) or archive.suffix == ".zip":
            _unpack_folders(archive, into)
        elif archive.suffix == ".gz":
            _unpack_file(archive)


def _unpack_file(archive: Path) -> None:
    target = archive.with_suffix("")
    temporary = target.with_name(f".{target.name}.unpacking")
    try:
        with gzip.open(archive) as packed, temporary.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 20)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _unpack_folders(archive: Path, into: Path) -> None:
    temporary = into / f".{archive.name}.unpacking"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for name, content in _tar(archive) if archive.name.endswith(TAR) else _zip(archive):
            target = temporary / _inside(archive, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
        _move(temporary, into)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _tar(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as content:
        for member in content:
            file = content.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file
            elif not member.isdir():
                raise ConfigError(f"{archive} is not unpacked: {member.name} is a link or a device, not a file")


def _zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            if not member.is_dir():
                with content.open(member) as file:
                    yield member.filename, file


def _inside(archive: Path, name: str) -> PurePosixPath:
    """Return a member's path, which must not lead out of the folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
        raise ConfigError(f"{archive} is not unpacked: its member {name!r} leads out of the folder")
    return path


def _move(temporary: Path, into: Path) -> None:
    """Move everything into place: a folder at once where it is new, else file by file."""
    for entry in sorted(temporary.iterdir()):
        target = into / entry.name
        if entry.is_dir() and target.is_dir():
            _move(entry, target)
        else:
            entry.replace(target)


@contextmanager
def _named_errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise ConfigError(f"{archive} is damaged ({error}); remove it and get it again") from None
