"""Whether a file is whole, told quickly from its length or its end, and the checksum of its content."""

from __future__ import annotations

import gzip
import hashlib
import os
import zipfile
import zlib
from pathlib import Path

from flatfed.data.formats.cifar import PIXELS
from flatfed.data.formats.idx import length_by_header

CIFAR_LENGTHS = {
    **{f"data_batch_{number}.bin": 10_000 * (1 + PIXELS) for number in range(1, 6)},
    "test_batch.bin": 10_000 * (1 + PIXELS),
    "train.bin": 50_000 * (2 + PIXELS),
    "test.bin": 10_000 * (2 + PIXELS),
}
"""The lengths of the binary layout: so many records in each file."""
END_OF_PICKLE = b"."
LENGTH_OF_GZIP = 4
"""A gzipped file ends with the length of its content."""


def anything(path: Path) -> bool:
    """Say that a file is whole: of this kind nothing is known."""
    return True


def whole_idx(path: Path) -> bool:
    """Say whether an idx file, plain or gzipped, is as long as its header says."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            expected = length_by_header(file.read)
        length = int.from_bytes(_end(path, LENGTH_OF_GZIP), "little") if path.suffix == ".gz" else path.stat().st_size
    except (EOFError, zlib.error, OSError):
        return False
    return length == expected


def whole_cifar(path: Path) -> bool:
    """Say whether a file of CIFAR has all records or, in the Python layout, the end of a pickle."""
    if path.suffix == ".bin":
        return path.stat().st_size == CIFAR_LENGTHS.get(path.name)
    return _end(path, 1) == END_OF_PICKLE


def whole_writers(path: Path) -> bool:
    """Say whether an NPZ file has its table of contents, which is at its end; other files are idx files."""
    return zipfile.is_zipfile(path) if path.suffix == ".npz" else whole_idx(path)


def content_md5(path: Path) -> str:
    """Return the checksum of a file's content, unpacked where it is gzipped; of a damaged one nothing."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except (EOFError, zlib.error, OSError):
        return ""
    return digest.hexdigest()


def _end(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        file.seek(-min(count, path.stat().st_size), os.SEEK_END)
        return file.read()
