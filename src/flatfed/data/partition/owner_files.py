"""Files that say who holds which samples: JSON, CSV, NPZ and NPY. The caller puts the file's name before errors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.formats.numpy_files import opened
from flatfed.data.partition.base import Ints, samples_of

NOBODY = -1
JSON_FORM = "it must hold {client: [indices], ...} or one list of indices per client"
CSV_FORM = "its first line must name the columns client and index, or every line must hold one owner"


def read_parts(path: Path, key: str, samples: int) -> list[Ints]:
    """Return for each client the indices of its samples, in increasing order; only what a reader needs is checked."""
    readers: dict[str, Callable[[Path, int], list[Ints]]] = {".json": _read_json, ".csv": _read_csv}
    kind = path.suffix.lower()
    if not path.is_file():
        raise ConfigError("there is no such file")
    if kind in (".npz", ".npy"):
        return _of_owners(_read_owners(path, key), samples)
    if kind not in readers:
        raise ConfigError("the name must end in .json, .csv, .npz or .npy")
    if key:
        raise ConfigError(f"a key ({key!r}) is for .npz files")
    try:
        return readers[kind](path, samples)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"it cannot be read: {error}") from None


def _read_json(path: Path, samples: int) -> list[Ints]:
    text = path.read_text(encoding="utf-8-sig")
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}") from None
    if isinstance(content, list):
        content = dict(enumerate(content))
    if not isinstance(content, dict):
        raise ConfigError(JSON_FORM)
    return [_indices(content[name], name) for name in _in_order(content)]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ConfigError(f"client {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return found


def _indices(values: Any, client: object) -> Ints:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ConfigError(f"client {client} has no list of whole numbers; {JSON_FORM}")
    if not values:
        raise ConfigError(f"client {client} has no samples; each needs one at least")
    return _sorted(values)


def _read_csv(path: Path, samples: int) -> list[Ints]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        try:
            rows = [[cell.strip() for cell in row] for row in csv.reader(stream)]
        except csv.Error as error:
            raise ConfigError(f"it is not CSV: {error}") from None
    while rows and not any(rows[-1]):
        rows.pop()
    if not rows:
        raise ConfigError("it is empty")
    header = [cell.lower() for cell in rows[0]]
    if {"client", "index"} <= set(header):
        return _of_pairs(rows, header.index("client"), header.index("index"))
    if len(header) > 1:
        raise ConfigError(CSV_FORM)
    titled = not _is_whole(header[0])
    owners = [_whole(_only(row, line), "owner", line) for line, row in _numbered(rows, 2 if titled else 1)]
    return _of_owners(np.array(owners, dtype=np.int64), samples)


def _of_pairs(rows: list[list[str]], client: int, index: int) -> list[Ints]:
    held: dict[str, list[int]] = {}
    for line, row in _numbered(rows, 2):
        held.setdefault(_cell(row, client, line), []).append(_whole(_cell(row, index, line), "index", line))
    return [_sorted(held[name]) for name in _in_order(held)]


def _numbered(rows: list[list[str]], first: int) -> Iterable[tuple[int, list[str]]]:
    return enumerate(rows[first - 1 :], start=first)


def _cell(row: list[str], column: int, line: int) -> str:
    if column >= len(row) or not row[column]:
        raise ConfigError(f"line {line} is not whole; {CSV_FORM}")
    return row[column]


def _only(row: list[str], line: int) -> str:
    if len(row) > 1:
        raise ConfigError(f"line {line} has {len(row)} values, the first has one; {CSV_FORM}")
    return _cell(row, 0, line)


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and len(text) < 19


def _whole(text: str, what: str, line: int) -> int:
    if not _is_whole(text):
        raise ConfigError(f"line {line}: the {what} {text!r} is not a whole number")
    return int(text)


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Return the clients by number, or as they come where they have names; -1 is nobody."""
    found = list(names)
    if not all(_is_whole(str(name)) for name in found):
        return found
    return sorted((name for name in found if int(name) != NOBODY), key=int)


def _sorted(indices: Sequence[int]) -> Ints:
    try:
        return np.sort(np.array(indices, dtype=np.int64))
    except OverflowError:
        raise ConfigError(f"there is no sample {max(indices, key=abs)}") from None


def _read_owners(path: Path, key: str) -> npt.NDArray[Any]:
    with opened(path, "it") as loaded:
        array = loaded[_choose(loaded.files, key)] if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ConfigError(f"it must hold one whole number per sample, not {array.dtype} of shape {array.shape}")
    return array


def _choose(names: list[str], key: str) -> str:
    if key:
        if key not in names:
            raise ConfigError(nearest(key, names, "key"))
        return key
    if len(names) != 1:
        raise ConfigError(f"say which array with --set partition.key=NAME: {', '.join(sorted(names)) or 'it has none'}")
    return names[0]


def _of_owners(owners: npt.NDArray[Any], samples: int) -> list[Ints]:
    if len(owners) != samples:
        raise ConfigError(f"it has owners of {len(owners):,} samples, but there are {samples:,} training samples")
    if owners.min() < NOBODY or owners.max() >= samples:
        wrong = int(np.flatnonzero((owners < NOBODY) | (owners >= samples))[0])
        raise ConfigError(f"sample {wrong} has owner {owners[wrong]}; owners are 0, 1, 2, ..., and -1 is nobody")
    return samples_of(owners.astype(np.int64), int(owners.max()) + 1)
