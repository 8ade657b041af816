"""The idx format of MNIST: a magic number, the lengths of the axes, the numbers; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError
from flatfed.data.formats.files import read_bytes

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
MAGIC = 4
"""Bytes of the magic number: two zeros, the type of the numbers, how many axes there are."""


@dataclass(frozen=True)
class _Header:
    """What the first bytes of a file say: the type of the numbers, and the lengths of the axes."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def length(self) -> int:
        """Bytes of the header itself."""
        return MAGIC + 4 * len(self.shape)

    @property
    def file_length(self) -> int:
        """Bytes of the whole file."""
        return self.length + math.prod(self.shape) * self.kind.itemsize


def read_idx(path: Path, axes: int | None = None) -> npt.NDArray[Any]:
    """Return the array in an idx file, in the machine's own byte order; `axes` is how many it must have."""
    raw = _unpacked(path)
    _check_magic(path, raw[:MAGIC])
    # Images and labels differ in their axes: a file under the other's name is noticed at once.
    if axes is not None:
        _check_axes(path, raw[3], axes)
    header = _header(raw)
    if header is None:
        raise ConfigError(f"{path} is truncated in its header; get it again")
    _check_length(path, len(raw), header.file_length)
    try:
        values = np.frombuffer(raw, header.kind, offset=header.length).reshape(header.shape)
    except ValueError as error:  # more axes than NumPy has, or one of length 0 beside huge ones
        raise ConfigError(f"{path} is damaged ({error}); get it again") from None
    return values.astype(header.kind.newbyteorder("="))


def length_by_header(read: Callable[[int], bytes]) -> int | None:
    """Return how many bytes an idx file must have by its header, which `read` gives; None where there is none."""
    magic = read(MAGIC)
    if not _is_magic(magic):
        return None
    header = _header(magic + read(4 * magic[3]))
    if header is None:
        return None
    return header.file_length


def _is_magic(magic: bytes) -> bool:
    return len(magic) == MAGIC and magic[:2] == b"\0\0" and magic[2] in TYPES


def _check_magic(path: Path, magic: bytes) -> None:
    if not _is_magic(magic):
        raise ConfigError(f"{path} is not an idx file: it begins with {magic.hex(' ') or 'nothing'}")


def _check_axes(path: Path, axes: int, expected: int) -> None:
    if axes != expected:
        raise ConfigError(f"{path} holds an array of {axes} axes, not {expected}; is it under the wrong name?")


def _check_length(path: Path, length: int, expected: int) -> None:
    if length == expected:
        return
    fault = "truncated" if length < expected else "damaged"
    raise ConfigError(f"{path} is {fault}: {length:,} bytes instead of {expected:,}; get it again")


def _header(raw: bytes) -> _Header | None:
    """Return the header that bytes begin with; None where it is cut off."""
    axes = raw[3]
    if len(raw) < MAGIC + 4 * axes:
        return None
    lengths = np.frombuffer(raw, ">u4", axes, MAGIC)
    # Python's numbers: the product of damaged lengths may be too large for NumPy's.
    return _Header(np.dtype(TYPES[raw[2]]), tuple(map(int, lengths)))


def _unpacked(path: Path) -> bytes:
    """Return the bytes of a file, unpacked where they begin as gzip does."""
    raw = read_bytes(path)
    if not raw.startswith(GZIP):
        return raw
    try:
        return gzip.decompress(raw)
    except EOFError:
        raise ConfigError(f"{path} is truncated; get it again") from None
    except (OSError, zlib.error) as error:
        raise ConfigError(f"{path} is damaged ({error}); get it again") from None
