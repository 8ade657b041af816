"""NumPy's own files: an array (.npy) or several by name (.npz); nothing that is pickled in them is ever run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from flatfed.core.errors import ConfigError
from flatfed.data.formats.files import reason
from flatfed.machine import open_regular

ARRAY, ARRAYS = b"\x93NUMPY", b"PK"


@contextmanager
def opened(path: Path, name: str = "", mmap: Literal["r"] | None = None) -> Iterator[Any]:
    """Open an array, or an `NpzFile` whose arrays are read inside the block; what goes wrong there is an error too.

    Errors call the file `name`, by default its path.
    """
    name = name or str(path)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            yield _loaded(path, file, mmap)
    except ConfigError:
        raise  # the block's own words
    except Exception as error:  # a damaged header or archive fails in many ways
        raise ConfigError(f"{name} cannot be read: {_fault(error)}") from None


class _NotNumpy(Exception):
    """The file begins as no NumPy file does."""


def _loaded(path: Path, file: BinaryIO, mmap: Literal["r"] | None) -> Any:
    begin = file.read(len(ARRAY))
    file.seek(0)
    _check_begin(begin)
    # NumPy maps a single array only, and only by its path.
    if mmap and begin == ARRAY:
        return np.load(path, mmap_mode=mmap, allow_pickle=False)
    return np.load(file, allow_pickle=False)


def _check_begin(begin: bytes) -> None:
    # An empty file is left to NumPy: it is truncated, not of another kind.
    if begin and not begin.startswith((ARRAY, ARRAYS)):
        raise _NotNumpy("it is no NumPy file (.npy or .npz)")


def _fault(error: Exception) -> str:
    if isinstance(error, _NotNumpy):
        return str(error)
    if isinstance(error, OSError):
        return reason(error)
    # NumPy raises a plain ValueError for pickled objects as for damage; only its text tells them apart.
    if "allow_pickle" in str(error) or "Python objects" in str(error):
        return "it holds Python objects, which are not opened"
    return f"it is truncated or damaged ({error})"
