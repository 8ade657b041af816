"""The two layouts of CIFAR: records of bytes, and pickled dictionaries that are read without running anything.

A record is one label byte (CIFAR-10) or two (CIFAR-100: coarse, fine), then 3,072 pixels: red, green, blue planes.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError
from flatfed.data.formats.files import read_bytes

SHAPE = (3, 32, 32)
PIXELS = math.prod(SHAPE)
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CifarLabels:
    """A kind of labels: its key in the pickled layout, and how many classes there are."""

    key: str
    classes: int


def read_binary(paths: Sequence[Path], kinds: Sequence[CifarLabels]) -> tuple[Bytes, list[Ints]]:
    """Return the images (N x 3 x 32 x 32) of record files, one after the other, and the labels of each kind."""
    records = [_records(path, kinds) for path in paths]
    # The slices are views: the images are copied once, into the array that is returned.
    images = np.concatenate([part[:, len(kinds) :] for part in records])
    labels = [_label_column(records, column) for column in range(len(kinds))]
    return images.reshape(-1, *SHAPE), labels


def _records(path: Path, kinds: Sequence[CifarLabels]) -> Bytes:
    width = len(kinds) + PIXELS
    raw = np.frombuffer(read_bytes(path), dtype=np.uint8)
    _check_length(path, len(raw), width)
    records = raw.reshape(-1, width)
    for column, kind in enumerate(kinds):
        _check_range(path, kind, records[:, column].min(), records[:, column].max())
    return records


def _check_length(path: Path, length: int, width: int) -> None:
    if length == 0 or length % width:
        raise ConfigError(
            f"{path} is truncated or damaged: {length:,} bytes are no whole number of records of {width:,}; "
            "get it again"
        )


def _label_column(records: Sequence[Bytes], column: int) -> Ints:
    return np.concatenate([part[:, column] for part in records]).astype(np.int64)


def read_pickled(paths: Sequence[Path], kinds: Sequence[CifarLabels]) -> tuple[Bytes, list[Ints]]:
    """Return the same from the pickled files of the Python layout."""
    batches = [_batch(path, kinds) for path in paths]
    images = np.concatenate([batch.images for batch in batches]).reshape(-1, *SHAPE)
    columns = zip(*(batch.labels for batch in batches), strict=True)
    return images, list(map(np.concatenate, columns))


@dataclass(frozen=True)
class _Batch:
    """The content of a pickled file: rows of pixels, and the labels of each kind."""

    images: Bytes
    labels: list[Ints]


def _batch(path: Path, kinds: Sequence[CifarLabels]) -> _Batch:
    content = _unpickled(path)
    _check_content(path, content, [kind.key for kind in kinds])
    images = _rows(path, content["data"])
    return _Batch(images, [_numbers(path, kind, content[kind.key], len(images)) for kind in kinds])


def _check_content(path: Path, content: Mapping[str, Any], keys: Sequence[str]) -> None:
    labelled = all(isinstance(content.get(key), list) for key in keys)
    if not labelled or not isinstance(content.get("data"), _Array):
        lists = ", ".join(keys)
        raise ConfigError(f"{path} is no batch of CIFAR images: it must hold an array `data` and lists {lists}")


def _rows(path: Path, array: _Array) -> Bytes:
    rows = array.values
    if rows is None or rows.shape[1:] != (PIXELS,) or len(rows) == 0:
        raise ConfigError(f"{path} is damaged: its images must be rows of {PIXELS:,} bytes; get it again")
    return rows


def _numbers(path: Path, kind: CifarLabels, values: Any, count: int) -> Ints:
    # `type`, not `isinstance`: a bool is no label.
    if set(map(type, values)) != {int} or len(values) != count:
        raise ConfigError(f"{path} is damaged: {kind.key} must be {count:,} whole numbers, one for each image")
    _check_range(path, kind, min(values), max(values))
    return np.array(values, dtype=np.int64)


def _check_range(path: Path, kind: CifarLabels, low: int, high: int) -> None:
    if low < 0 or high >= kind.classes:
        raise ConfigError(f"{path} is damaged: it has {kind.key} outside 0..{kind.classes - 1}; get it again")


# --- pickles without code -------------------------------------------------------------------------------------


class _Array:
    """Stands for a NumPy array in a pickle: takes its shape and bytes, and nothing but unsigned bytes."""

    def __init__(self, *_: Any) -> None:
        self.values: Bytes | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_column, raw = state
        self.values = _array(raw, kind, shape, by_column)


class _Type:
    """Stands for a NumPy type in a pickle."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = _text(name)

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, of which single bytes have none."""


def _array(raw: Any, kind: Any, shape: Any, by_column: Any) -> Bytes:
    # Anything but plain bytes in C order would be read as other pixels than were written.
    if not isinstance(kind, _Type) or kind.name != "u1" or by_column not in (False, "C"):
        raise pickle.UnpicklingError("an array that does not hold bytes row by row")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.values = _array(raw, kind, shape, order)
    return array


def _encode(text: str, encoding: str) -> bytes:
    """Undo how Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    # NumPy 2 has renamed the module; files written by either are in use.
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}


class _Refused(Exception):
    """The pickle names something that no CIFAR file needs."""


class _Unpickler(pickle.Unpickler):
    """Builds lists, dictionaries, numbers, texts and arrays of bytes; whatever else a pickle names is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for one of the few names that the files hold."""
        if (module, name) not in _ADMITTED:
            raise _Refused(f"{module}.{name}")
        return _ADMITTED[module, name]


def _unpickled(path: Path) -> dict[str, Any]:
    content = _load(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is no batch of CIFAR images: it holds a {type(content).__name__}")
    return {str(_text(key)): value for key, value in content.items()}


def _load(path: Path) -> Any:
    raw = read_bytes(path)
    try:
        _refuse_wild_numbers(raw)
        # The official files were written by Python 2, whose texts are bytes.
        return _Unpickler(io.BytesIO(raw), encoding="bytes").load()
    except _Refused as refused:
        raise ConfigError(f"{path} is not opened: it asks for {refused}, which no official CIFAR file does") from None
    except Exception as error:
        # A damaged pickle may fail in any way: a missing mark, a wrong type, a number too large.
        raise ConfigError(f"{path} is truncated or damaged ({error or type(error).__name__}); get it again") from None


def _refuse_wild_numbers(raw: bytes) -> None:
    """Refuse a pickle that does not number its parts one by one: Python takes memory up to the largest number."""
    for before, (operation, argument, _) in enumerate(pickletools.genops(raw)):
        number = argument if operation.name in ("PUT", "BINPUT", "LONG_BINPUT") else None
        if number is not None and number > before:
            raise pickle.UnpicklingError(f"part {number} of at most {before}")


def _text(name: Any) -> Any:
    """Return a name as text: files of Python 2 hold bytes, those of Python 3 texts."""
    if isinstance(name, bytes):
        return name.decode("latin1")
    return name
