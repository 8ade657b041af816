"""A bundle as a file: a zip archive whose members are stored as they are, each with its SHA-256 in a manifest.

A bundle comes from a stranger. Nothing in it is compressed, so what it unpacks to is never larger than itself; only
names that a bundle has are unpacked, and only plain files; every byte is hashed on the way.
"""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from flatfed.core.errors import ConfigError
from flatfed.experiments.bundling.contents import MANIFEST, is_known
from flatfed.machine import require_regular
from flatfed.runs.records.files import open_to_read, opened, refuse_way_out, sealed

FORMAT = 1
CHUNK = 1 << 20
MOST_FILES = 100_000
MOST_MANIFEST = 64 << 20
"""Bytes of a manifest, at most."""
DATE = (1980, 1, 1, 0, 0, 0)
"""The same for all, so that equal runs give equal bundles."""
DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, struct.error, OverflowError)
"""What the library raises at a damaged archive."""

Files = Mapping[str, Path | bytes]


def write_archive(path: Path, files: Files, home: Path, facts: Mapping[str, Any]) -> None:
    """Write a bundle of files by name, or of bytes; `facts` stand in its manifest."""
    entries: dict[str, Any] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, content in files.items():
            with archive.open(_member(name), "w", force_zip64=True) as target:
                if isinstance(content, bytes):
                    entries[name] = _copied(iter([content]), target)
                    continue
                refuse_way_out(content, home)
                with open_to_read(content) as source:
                    entries[name] = _copied(_parts(source), target)
        manifest = sealed({"format": FORMAT, **facts, "files": entries})
        archive.writestr(_member(MANIFEST), json.dumps(manifest, indent=1) + "\n")


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, DATE)
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    return member


def _parts(source: IO[bytes]) -> Iterator[bytes]:
    while part := source.read(CHUNK):
        yield part


def _copied(parts: Iterator[bytes], target: IO[bytes]) -> dict[str, Any]:
    """Write bytes part by part, and return how many they were and their SHA-256."""
    digest, size = hashlib.sha256(), 0
    for part in parts:
        target.write(part)
        digest.update(part)
        size += len(part)
    return {"sha256": digest.hexdigest(), "bytes": size}


def unpack_archive(path: Path, into: Path) -> dict[str, Any]:
    """Unpack a bundle into an empty folder, every file checked, and return its manifest."""
    with _damage_named(path):
        require_regular(path)
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive)
            manifest = _manifest(path, archive, members)
            for name, entry in manifest["files"].items():
                _unpack(path, archive, members[name], into / name, entry)
            return manifest


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except ConfigError:
        raise
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be unpacked: {error.strerror or error}") from None
    except DAMAGE as error:
        raise ConfigError(f"{path} is no bundle, or it is damaged: {error}") from None


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name; anything but plain stored files of known names is refused."""
    listed = archive.infolist()
    if len(listed) > MOST_FILES:
        raise _refused(path, f"it has {len(listed):,} files")
    members: dict[str, zipfile.ZipInfo] = {}
    for member in listed:
        name = member.filename
        if name != MANIFEST and not is_known(name):
            raise _refused(path, f"{name[:80]!r} is no file of a bundle")
        if name in members:
            raise _refused(path, f"{name} is there twice")
        _check_plain(path, member)
        members[name] = member
    if MANIFEST not in members:
        raise ConfigError(f"{path} is no bundle of flatfed: it has no {MANIFEST}")
    # Members that lie over each other could unpack to more than the archive holds.
    if sum(member.file_size for member in listed) > path.stat().st_size:
        raise _refused(path, "its files are larger than itself")
    return members


def _check_plain(path: Path, member: zipfile.ZipInfo) -> None:
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise _refused(path, f"{member.filename} is compressed, and files of a bundle are not")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.flag_bits & 1 or member.is_dir() or kind not in (0, stat.S_IFREG):
        raise _refused(path, f"{member.filename} is a link, a folder or encrypted")


def _refused(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{path} is not unpacked: {reason}")


def _manifest(path: Path, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, Any]:
    """Return the manifest, which must name the members and no others."""
    if members[MANIFEST].file_size > MOST_MANIFEST:
        raise _refused(path, f"its {MANIFEST} is too large")
    try:
        written = json.loads(archive.read(members[MANIFEST]))
    except RecursionError:
        raise _refused(path, f"its {MANIFEST} is nested too deeply") from None
    manifest = opened(written) if isinstance(written, dict) and "seal" in written else None
    if manifest is None:
        raise _refused(path, f"its {MANIFEST} was changed after it was written")
    if manifest.get("format") != FORMAT:
        raise ConfigError(f"{path} has format {manifest.get('format')!r}; this version reads {FORMAT}")
    files = manifest.get("files")
    if not isinstance(files, dict) or {*files, MANIFEST} != {*members} or not all(map(_is_entry, files.values())):
        raise _refused(path, f"its {MANIFEST} does not name the files that are in it")
    return manifest


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("sha256"), str) and isinstance(entry.get("bytes"), int)


def _unpack(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, entry: Any) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("xb") as file:
        actual = _copied(_parts(source), file)
    if actual != {"sha256": entry["sha256"], "bytes": entry["bytes"]}:
        raise _refused(path, f"{member.filename} does not have the SHA-256 that {MANIFEST} says")
