"""The idx format of MNIST: a magic number, the lengths of the axes, the numbers; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP = b"\x1f\x8b"
HEADER = 4


def read_idx(path: Path, axes: int | None = None) -> npt.NDArray[Any]:
    """Return the array in an idx file, in the machine's own byte order; `axes` is how many it must have."""
    raw = _content(path)
    if len(raw) < HEADER or raw[:2] != b"\0\0" or raw[2] not in TYPES:
        raise ConfigError(f"{path} is not an idx file: it begins with {raw[:HEADER].hex(' ') or 'nothing'}")
    if axes is not None and raw[3] != axes:
        raise ConfigError(f"{path} holds an array of {raw[3]} axes, not {axes}; is it under the wrong name?")
    start = HEADER + 4 * raw[3]
    if len(raw) < start:
        raise ConfigError(f"{path} is truncated in its header; get it again")
    shape, kind = _described(raw)
    expected = start + math.prod(shape) * kind.itemsize
    if len(raw) != expected:
        fault = "truncated" if len(raw) < expected else "damaged"
        raise ConfigError(f"{path} is {fault}: {len(raw):,} bytes instead of {expected:,}; get it again")
    return np.frombuffer(raw, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="))


def length_by_header(read: Callable[[int], bytes]) -> int | None:
    """Return how many bytes an idx file must have by its header, which `read` gives; None where there is none."""
    raw = read(HEADER)
    if len(raw) < HEADER or raw[:2] != b"\0\0" or raw[2] not in TYPES:
        return None
    raw += read(4 * raw[3])
    if len(raw) < HEADER + 4 * raw[3]:
        return None
    shape, kind = _described(raw)
    return len(raw) + math.prod(shape) * kind.itemsize


def _described(raw: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type of the numbers that a header describes."""
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", raw[3], HEADER))
    return shape, np.dtype(TYPES[raw[2]])


def _content(path: Path) -> bytes:
    """Return the bytes of a file, unpacked where they begin as gzip does."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    if not raw.startswith(GZIP):
        return raw
    try:
        return gzip.decompress(raw)
    except EOFError:
        raise ConfigError(f"{path} is truncated; get it again") from None
    except (OSError, zlib.error) as error:
        raise ConfigError(f"{path} is damaged ({error}); get it again") from None
