"""Whether a file is whole, seen quickly from its length or its end, and the checksum of its content."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from flatfed.data.formats.idx import length_by_header

GZIPPED = ".gz"
LENGTH_OF_GZIP = 4
"""A gzipped file ends with the length of its content, a number of four bytes."""
CHUNK = 1 << 20
UNREADABLE = (EOFError, zlib.error, OSError)


def anything(path: Path) -> bool:
    """Say that a file is whole: of this kind nothing is known."""
    return True


def whole_idx(path: Path) -> bool:
    """Say whether an idx file, plain or gzipped, is as long as its header says."""
    try:
        with open_content(path) as file:
            expected = length_by_header(file.read)
        return _content_length(path) == expected
    except UNREADABLE:
        return False


def content_md5(path: Path) -> str:
    """Return the checksum of a file's content, unpacked where it is gzipped; of a damaged one nothing."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with open_content(path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except UNREADABLE:
        # Equal to no checksum, so that a damaged file never counts as the official one.
        return ""
    return digest.hexdigest()


def open_content(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open a file for reading, through gzip where its name says so."""
    if path.suffix == GZIPPED:
        return gzip.open(path)
    return path.open("rb")


def last_bytes(path: Path, count: int) -> bytes:
    """Return the end of a file: `count` bytes, or all where it has fewer."""
    with path.open("rb") as file:
        file.seek(-min(count, path.stat().st_size), os.SEEK_END)
        return file.read()


def _content_length(path: Path) -> int:
    if path.suffix == GZIPPED:
        return int.from_bytes(last_bytes(path, LENGTH_OF_GZIP), "little")
    return path.stat().st_size
