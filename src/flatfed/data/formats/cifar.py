"""The two layouts of CIFAR: records of bytes, and pickled dictionaries that are read without running anything.

A record is one label byte (CIFAR-10) or two (CIFAR-100: coarse, fine), then 3,072 pixels: red, green, blue planes.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError

SHAPE = (3, 32, 32)
PIXELS = math.prod(SHAPE)
Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Labels:
    """A kind of labels: its key in the pickled layout, and how many classes there are."""

    key: str
    classes: int


def read_binary(paths: Sequence[Path], kinds: Sequence[Labels]) -> tuple[Bytes, list[Ints]]:
    """Return the images (N x 3 x 32 x 32) of record files, one after the other, and the labels of each kind."""
    width = len(kinds) + PIXELS
    records = [_records(path, width, kinds) for path in paths]
    images: Bytes = np.empty((sum(map(len, records)), *SHAPE), dtype=np.uint8)
    flat, begin = images.reshape(-1, PIXELS), 0
    for part in records:
        flat[begin : begin + len(part)] = part[:, len(kinds) :]
        begin += len(part)
    labels = [np.concatenate([part[:, i] for part in records]).astype(np.int64) for i in range(len(kinds))]
    return images, labels


def _records(path: Path, width: int, kinds: Sequence[Labels]) -> Bytes:
    raw = np.frombuffer(_read(path), dtype=np.uint8)
    if len(raw) == 0 or len(raw) % width:
        raise ConfigError(
            f"{path} is truncated or damaged: {len(raw):,} bytes are no whole number of records of {width:,}; "
            "get it again"
        )
    records = raw.reshape(-1, width)
    for column, kind in enumerate(kinds):
        _check_range(path, kind, records[:, column].min(), records[:, column].max())
    return records


def read_pickled(paths: Sequence[Path], kinds: Sequence[Labels]) -> tuple[Bytes, list[Ints]]:
    """Return the same from the pickled files of the Python layout."""
    parts = [_batch(path, kinds) for path in paths]
    images = np.concatenate([images for images, _ in parts]).reshape(-1, *SHAPE)
    return images, [np.concatenate([labels[i] for _, labels in parts]) for i in range(len(kinds))]


def _batch(path: Path, kinds: Sequence[Labels]) -> tuple[Bytes, list[Ints]]:
    content = _unpickled(path)
    images, labels = content.get("data"), [content.get(kind.key) for kind in kinds]
    if not isinstance(images, _Array) or not all(isinstance(values, list) for values in labels):
        wanted = ", ".join(kind.key for kind in kinds)
        raise ConfigError(f"{path} is no batch of CIFAR images: it must hold an array `data` and lists {wanted}")
    if images.values is None or images.values.ndim != 2 or images.values.shape[1] != PIXELS or not len(images.values):
        raise ConfigError(f"{path} is damaged: its images must be rows of {PIXELS:,} bytes; get it again")
    return images.values, [
        _numbers(path, kind, values, len(images.values)) for kind, values in zip(kinds, labels, strict=True)
    ]


def _numbers(path: Path, kind: Labels, values: Any, count: int) -> Ints:
    if not all(type(value) is int for value in values) or len(values) != count:
        raise ConfigError(f"{path} is damaged: {kind.key} must be {count:,} whole numbers, one for each image")
    _check_range(path, kind, min(values), max(values))
    return np.array(values, dtype=np.int64)


def _check_range(path: Path, kind: Labels, low: int, high: int) -> None:
    if low < 0 or high >= kind.classes:
        raise ConfigError(f"{path} is damaged: it has {kind.key} outside 0..{kind.classes - 1}; get it again")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None


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
        self.name = name.decode("latin1") if isinstance(name, bytes) else name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, of which single bytes have none."""


def _array(raw: Any, kind: Any, shape: Any, by_column: Any) -> Bytes:
    if not isinstance(kind, _Type) or kind.name != "u1" or by_column not in (False, "C"):
        raise pickle.UnpicklingError("an array that does not hold bytes row by row")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def _from_buffer(raw: Any, kind: Any, shape: Any, order: Any) -> _Array:
    made = _Array()
    made.values = _array(raw, kind, shape, order)
    return made


def _encode(text: str, encoding: str) -> bytes:
    """Undo how Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding}")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
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
    raw = _read(path)
    try:
        content = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
    except _Refused as refused:
        raise ConfigError(f"{path} is not opened: it asks for {refused}, which no official CIFAR file does") from None
    except Exception as error:
        # A damaged pickle may fail in any way: a missing mark, a wrong type, a number too large.
        raise ConfigError(f"{path} is truncated or damaged ({error or type(error).__name__}); get it again") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is no batch of CIFAR images: it holds a {type(content).__name__}")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in content.items()}
