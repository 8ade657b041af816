"""Files that say who holds which samples: JSON, CSV, NPZ and NPY. The caller puts the file's name before errors."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.data.formats.numpy_files import opened
from flatfed.data.partition.base import Ints, samples_of

NOBODY = -1
JSON_FORM = "it must hold {client: [indices], ...} or one list of indices per client"
CSV_FORM = "its first line must name the columns client and index, or every line must hold one owner"


def read_parts(path: Path, key: str, samples: int) -> list[Ints]:
    """Return for each client the indices of its samples, in increasing order; only what a reader needs is checked."""
    if not path.is_file():
        raise ConfigError("there is no such file")
    kind = path.suffix.lower()
    if kind in (".npz", ".npy"):
        return _of_owners(_read_owners(path, key), samples)
    if kind not in (".json", ".csv"):
        raise ConfigError("the name must end in .json, .csv, .npz or .npy")
    if key:
        raise ConfigError(f"a key ({key!r}) is for .npz files")
    text = _read_text(path)
    if kind == ".json":
        return _of_json(text)
    return _of_csv(text, samples)


def _read_text(path: Path) -> str:
    try:
        # Bytes first: reading as text would change line breaks within the fields of a CSV file.
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"it cannot be read: {error}") from None


def _of_json(text: str) -> list[Ints]:
    content = _parsed(text)
    if isinstance(content, list):
        content = dict(enumerate(content))
    if not isinstance(content, dict):
        raise ConfigError(JSON_FORM)
    return [_indices(content[name], name) for name in _in_order(content)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON file; Python's reader would take the last of two clients of one name."""
    held: dict[str, Any] = {}
    for name, value in pairs:
        if name in held:
            raise ConfigError(f"client {name!r} is there twice")
        held[name] = value
    return held


def _indices(values: Any, client: object) -> Ints:
    # `type`, not `isinstance`: true and false are no indices.
    if not isinstance(values, list) or not set(map(type, values)) <= {int}:
        raise ConfigError(f"client {client} has no list of whole numbers; {JSON_FORM}")
    if not values:
        raise ConfigError(f"client {client} has no samples; each client needs at least one")
    return _sorted(values)


def _of_csv(text: str, samples: int) -> list[Ints]:
    rows = _csv_rows(text)
    header = [cell.lower() for cell in rows[0]]
    if {"client", "index"} <= set(header):
        return _of_pairs(rows, header.index("client"), header.index("index"))
    if len(header) > 1:
        raise ConfigError(CSV_FORM)
    return _of_owners(_owner_column(rows), samples)


def _owner_column(rows: list[list[str]]) -> Ints:
    """Return one owner per line; the first line may be a title."""
    first = 1 if _is_whole(rows[0][0]) else 2
    owners = [_owner(row, line) for line, row in _numbered(rows, first)]
    return np.array(owners, dtype=np.int64)


def _csv_rows(text: str) -> list[list[str]]:
    """Return the rows up to the last that holds something; there must be one."""
    try:
        rows = list(map(_stripped, csv.reader(io.StringIO(text, newline=""))))
    except csv.Error as error:
        raise ConfigError(f"it is not CSV: {error}") from None
    return _without_empty_end(rows)


def _without_empty_end(rows: list[list[str]]) -> list[list[str]]:
    while rows and not any(rows[-1]):
        rows.pop()
    if not rows:
        raise ConfigError("it is empty")
    return rows


def _stripped(row: list[str]) -> list[str]:
    return [cell.strip() for cell in row]


def _of_pairs(rows: list[list[str]], client: int, index: int) -> list[Ints]:
    held: defaultdict[str, list[int]] = defaultdict(list)
    for line, row in _numbered(rows, 2):
        held[_cell(row, client, line)].append(_whole(_cell(row, index, line), "index", line))
    return [_sorted(held[name]) for name in _in_order(held)]


def _numbered(rows: list[list[str]], first: int) -> Iterable[tuple[int, list[str]]]:
    return enumerate(rows[first - 1 :], start=first)


def _cell(row: list[str], column: int, line: int) -> str:
    if column >= len(row) or not row[column]:
        raise ConfigError(f"line {line} is not whole; {CSV_FORM}")
    return row[column]


def _owner(row: list[str], line: int) -> int:
    if len(row) > 1:
        raise ConfigError(f"line {line} has {len(row)} values, the first has one; {CSV_FORM}")
    return _whole(_cell(row, 0, line), "owner", line)


def _is_whole(text: str) -> bool:
    # More digits may not fit into 64 bits.
    return text.removeprefix("-").isdecimal() and len(text) < 19


def _whole(text: str, what: str, line: int) -> int:
    if not _is_whole(text):
        raise ConfigError(f"line {line}: the {what} {text!r} is not a whole number")
    return int(text)


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Return the clients by number, or as they come where they have names; -1 is nobody."""
    clients = list(names)
    if not all(_is_whole(str(name)) for name in clients):
        return clients
    return sorted(filter(_is_somebody, clients), key=int)


def _is_somebody(name: Any) -> bool:
    return int(name) != NOBODY


def _sorted(indices: Sequence[int]) -> Ints:
    try:
        return np.sort(np.array(indices, dtype=np.int64))
    except OverflowError:
        raise ConfigError(f"there is no sample {max(indices, key=abs)}") from None


def _read_owners(path: Path, key: str) -> npt.NDArray[Any]:
    with opened(path, "it") as loaded:
        array = _chosen(loaded, key)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ConfigError(f"it must hold one whole number per sample, not {array.dtype} of shape {array.shape}")
    return array


def _chosen(loaded: Any, key: str) -> npt.NDArray[Any]:
    if isinstance(loaded, np.ndarray):
        return loaded
    array: npt.NDArray[Any] = loaded[_choose(loaded.files, key)]
    return array


def _choose(names: list[str], key: str) -> str:
    if not key:
        return _only(names)
    if key not in names:
        raise ConfigError(nearest(key, names, "key"))
    return key


def _only(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    listed = ", ".join(sorted(names)) or "it has none"
    raise ConfigError(f"say which array with {PARAMETER}=NAME: {listed}", parameter="partition.key")


def _of_owners(owners: npt.NDArray[Any], samples: int) -> list[Ints]:
    if len(owners) != samples:
        raise ConfigError(f"it has owners of {len(owners):,} samples, but there are {samples:,} training samples")
    # With a larger owner some client would have no samples.
    outside = np.flatnonzero((owners < NOBODY) | (owners >= samples))
    if len(outside):
        wrong = int(outside[0])
        raise ConfigError(f"sample {wrong} has owner {owners[wrong]}; owners are 0, 1, 2, ..., and -1 is nobody")
    return samples_of(owners.astype(np.int64), int(owners.max()) + 1)
