"""Tables of Hugging Face's library `datasets`: loading them, their columns, and readers of their images."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.data.formats.client_tables import Ints, in_order, numbered
from flatfed.data.formats.images import Decoding, decode

LABELS = ("label", "labels", "class", "target")
INPUTS = ("image", "text")
SAVED = ("dataset_dict.json", "state.json")
SCRIPTS = "HF_DATASETS_TRUST_REMOTE_CODE"
"""What lets versions of the library before 4 run code that comes with a data set."""
MOST = 1_000_000
"""Classes that are numbers are below this one."""


def library() -> Any:
    """Return the library, or say how to get it."""
    try:
        return importlib.import_module("datasets")
    except ImportError as error:
        text = "data sets of Hugging Face need the library datasets; pip install 'flatfed[hugging-face]'"
        raise ConfigError(text) from error


def load_splits(path: str, local: Path | None, name: str, download: bool) -> Mapping[str, Any]:
    """Return the splits of a data set by name: from a folder of this machine, else from the hub."""
    datasets = library()
    if local is not None:
        with _load_errors(str(local)):
            return _by_name(_load_local(datasets, local, name, download))
    advice = "" if download else "; if it is on the hub, data.download=true fetches it"
    with _load_errors(path, advice):
        return _by_name(_load(datasets, path, name, download))


@contextmanager
def _load_errors(source: str, advice: str = "") -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the library raises its own, and those of pyarrow and of the network
        raise ConfigError(f"{source} cannot be loaded: {_reason(error)}{advice}") from error


def _by_name(loaded: Any) -> Mapping[str, Any]:
    """Return the splits by name; a table without splits is the training part."""
    if isinstance(loaded, Mapping):
        return loaded
    return {"train": loaded}


def _load_local(datasets: Any, folder: Path, name: str, download: bool) -> Any:
    # What `save_to_disk` has written is read by its counterpart alone.
    if any(map(Path.is_file, map(folder.joinpath, SAVED))):
        return datasets.load_from_disk(str(folder))
    return _load(datasets, str(folder), name, download)


def _load(datasets: Any, source: str, name: str, download: bool) -> Any:
    with _network(datasets, download):
        return datasets.load_dataset(source, name or None)


def _reason(error: BaseException) -> str:
    """Return what went wrong in one line, with what was behind it."""
    text = " ".join(str(error).split()) or type(error).__name__
    if error.__cause__ is None:
        return text
    return f"{text} ({_reason(error.__cause__)})"


@contextmanager
def _network(datasets: Any, allowed: bool) -> Iterator[None]:
    """Keep the library off the network unless it is allowed, and never let it run the script of a data set."""
    config = datasets.config
    offline, scripts = config.HF_HUB_OFFLINE, getattr(config, SCRIPTS, None)
    # Where the user has set the library offline it stays so.
    config.HF_HUB_OFFLINE = offline or not allowed
    setattr(config, SCRIPTS, False)
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = offline
        setattr(config, SCRIPTS, scripts)


@dataclass(frozen=True)
class HubTable:
    """A split: `rows` of the library, and which of its columns are what. `title` is for messages."""

    title: str
    rows: Any
    column: str
    label: str
    client: str = ""
    numbers: Ints | None = None

    @classmethod
    def choose(
        cls, path: str, splits: Mapping[str, Any], split: str, column: str, label: str, client: str = ""
    ) -> HubTable:
        """Return a split with the columns asked for, or else with those that look like it."""
        title = f"{path}, {split}"
        rows = _split(path, splits, split)
        _check_columns(title, rows.features, (column, label, client))
        label = label or _label_column(title, rows.features)
        column = column or _input_column(title, rows.features, taken=(label, client))
        if _kind(rows.features[column]) not in INPUTS:
            raise ConfigError(f"{title}: the column {column} holds neither images nor texts")
        return cls(title, rows, column, label, client)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_images(self) -> bool:
        """Whether the inputs are images; else they are texts."""
        return _kind(self.rows.features[self.column]) == "image"

    def where(self, mask: npt.NDArray[np.bool_]) -> HubTable:
        """Return some of the rows."""
        chosen = np.flatnonzero(mask)
        numbers = chosen if self.numbers is None else self.numbers[chosen]
        return replace(self, rows=self.rows.select(chosen), numbers=numbers)

    def classes(self) -> list[str]:
        """Return the classes in order: as declared, else from 0 to the largest number, else the different words."""
        feature = self.rows.features[self.label]
        if _kind(feature) == "class":
            return _numbered_classes(feature.num_classes)
        cells = self.cells(self.label)
        self._check_classes(cells)
        if set(map(type, cells)) == {int}:
            return _numbered_classes(max(cells) + 1)
        return in_order(list(map(str, cells)))

    def _check_classes(self, cells: Sequence[Any]) -> None:
        for row, cell in enumerate(cells):
            if not _is_class(cell):
                message = f"{str(cell)[:40]} is no class; classes are 0, 1, 2, ..., or words"
                raise ConfigError(f"{self.place(row)}: {message}")

    def labels(self, order: Sequence[str]) -> Ints:
        """Return the class of every row."""
        cells = list(map(str, self.cells(self.label)))
        known = set(order)
        for row, cell in enumerate(cells):
            if cell not in known:
                raise ConfigError(f"{self.place(row)}: {cell!r} is none of the {len(order)} classes")
        return numbered(cells, order)

    def owners(self) -> Ints:
        """Return whose every row is."""
        names = list(map(str, self.cells(self.client)))
        return numbered(names, in_order(names))

    def cells(self, column: str) -> list[Any]:
        """Return the cells of a column; an empty one is an error."""
        # Without a format: a table may hand out arrays, which are no classes.
        cells = list(map(_plain, self.rows.with_format(None)[column]))
        for row, cell in enumerate(cells):
            if cell in (None, ""):
                raise ConfigError(f"{self.place(row)}: the {column} is empty")
        return cells

    def place(self, row: int) -> str:
        """Return what a message calls a row: its number in the split."""
        number = row if self.numbers is None else self.numbers[row]
        return f"{self.title}, row {number}"

    def images(self, labels: Ints, decoding: Decoding) -> HubImages:
        """Return a reader of the images."""
        rows = self.rows.with_format(None).select_columns([self.column])
        # Not decoded by the library, so that sizes and errors are those of other image files.
        encoded = rows.cast_column(self.column, library().Image(decode=False))
        return HubImages(replace(self, rows=encoded), torch.from_numpy(labels), decoding)


@dataclass(frozen=True, eq=False)
class HubImages:
    """A reader of the encoded images in a column."""

    table: HubTable
    targets: Tensor
    decoding: Decoding

    def __len__(self) -> int:
        return len(self.table)

    def __call__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the decoded image and its class."""
        source, name = self._source(index)
        return decode(source, self.decoding, name), self.targets[index]

    def _source(self, index: int) -> tuple[str | bytes, str]:
        """Return the bytes of an image, or else its path, and what messages call it."""
        cell = self.table.rows[index][self.table.column] or {}
        name = f"{self.table.place(index)}: the image"
        if cell.get("bytes"):
            return cell["bytes"], name
        if cell.get("path"):
            return cell["path"], f"{name} {cell['path']}"
        raise ConfigError(f"{name} is empty")


def _split(path: str, splits: Mapping[str, Any], split: str) -> Any:
    if split not in splits:
        raise ConfigError(f"{path}: {nearest(split, splits, 'split')}")
    if len(splits[split]) == 0:
        raise ConfigError(f"{path}, {split} is empty")
    return splits[split]


def _check_columns(title: str, features: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Refuse columns that there are not; an empty name asks for none."""
    for column in filter(None, columns):
        if column not in features:
            raise ConfigError(f"{title}: {nearest(column, features, 'column')}")


def _label_column(title: str, features: Mapping[str, Any]) -> str:
    for name, feature in features.items():
        if _kind(feature) == "class" or name in LABELS:
            return name
    raise _unclear(title, features, "label")


def _input_column(title: str, features: Mapping[str, Any], taken: Sequence[str]) -> str:
    free = {name: feature for name, feature in features.items() if name not in taken}
    # Images first: a table of pictures often has texts beside them, such as captions.
    column = _first_of_kind("image", free) or _first_of_kind("text", free)
    if column is None:
        raise _unclear(title, free, "column")
    return column


def _first_of_kind(kind: str, features: Mapping[str, Any]) -> str | None:
    for name, feature in features.items():
        if _kind(feature) == kind:
            return name
    return None


def _unclear(title: str, features: Iterable[str], option: str) -> ConfigError:
    return ConfigError(
        f"{title}: say which of {', '.join(features)} it is, with {PARAMETER}", parameter=f"data.{option}"
    )


def _kind(feature: Any) -> str:
    """Return what a column holds: `image`, `class`, `text` or something else."""
    # By its name: the library need not be there before a data set of it is loaded.
    name = type(feature).__name__
    if name == "Value":
        return _kind_of_value(feature.dtype)
    return {"Image": "image", "ClassLabel": "class"}.get(name, name)


def _kind_of_value(dtype: str) -> str:
    if dtype in ("string", "large_string"):
        return "text"
    return str(dtype)


def _numbered_classes(count: int) -> list[str]:
    return list(map(str, range(count)))


def _is_class(cell: Any) -> bool:
    if isinstance(cell, int):
        return cell < MOST
    return isinstance(cell, float | str)


def _plain(cell: Any) -> Any:
    """Return a cell, a truth value as 0 or 1: these are classes like other numbers."""
    if isinstance(cell, bool):
        return int(cell)
    return cell
