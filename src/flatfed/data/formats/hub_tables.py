"""Tables of Hugging Face's library `datasets`: loading them, their columns, and readers of their images."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError, nearest
from flatfed.data.formats.client_tables import Ints, in_order, numbered
from flatfed.data.formats.images import Decoding, decode

LABELS = ("label", "labels", "class", "target")
SAVED = ("dataset_dict.json", "state.json")
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
    try:
        if local is not None and any((local / file).is_file() for file in SAVED):
            loaded = datasets.load_from_disk(str(local))
        else:
            with _network(datasets, download):
                loaded = datasets.load_dataset(str(local or path), name or None)
    except Exception as error:  # the library raises its own, and those of pyarrow and of the network
        fetch = "" if local or download else "; if it is on the hub, --set data.download=true fetches it"
        raise ConfigError(f"{local or path} cannot be loaded: {_reason(error)}{fetch}") from error
    return loaded if isinstance(loaded, Mapping) else {"train": loaded}


def _reason(error: BaseException) -> str:
    """Return what went wrong in one line, with what was behind it."""
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{text} ({_reason(error.__cause__)})" if error.__cause__ is not None else text


@contextmanager
def _network(datasets: Any, allowed: bool) -> Iterator[None]:
    """Keep the library off the network unless it is allowed."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or not allowed
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before


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
        if split not in splits:
            raise ConfigError(f"{path}: {nearest(split, splits, 'split')}")
        rows, title = splits[split], f"{path}, {split}"
        if len(rows) == 0:
            raise ConfigError(f"{title} is empty")
        for given in (column, label, client):
            if given and given not in rows.features:
                raise ConfigError(f"{title}: {nearest(given, rows.features, 'column')}")
        label = label or _first(title, rows.features, "label", lambda n, f: _kind(f) == "class" or n in LABELS)
        rest = {n: f for n, f in rows.features.items() if n not in (label, client)}
        column = column or next((n for n, f in rest.items() if _kind(f) == "image"), "")
        column = column or _first(title, rest, "column", lambda n, f: _kind(f) == "text")
        if _kind(rows.features[column]) not in ("image", "text"):
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
        numbers = np.flatnonzero(mask) if self.numbers is None else self.numbers[mask]
        return replace(self, rows=self.rows.select(np.flatnonzero(mask)), numbers=numbers)

    def classes(self) -> list[str]:
        """Return the classes in order: as declared, else from 0 to the largest number, else the different words."""
        feature = self.rows.features[self.label]
        if _kind(feature) == "class":
            return [str(number) for number in range(feature.num_classes)]
        cells = self.cells(self.label)
        for row, cell in enumerate(cells):
            if not isinstance(cell, int | float | str) or (isinstance(cell, int) and cell >= MOST):
                raise ConfigError(
                    f"{self.place(row)}: {str(cell)[:40]} is no class; classes are 0, 1, 2, ..., or words"
                )
        if all(isinstance(cell, int) for cell in cells):
            return [str(number) for number in range(max(cells) + 1)]
        return in_order([str(cell) for cell in cells])

    def labels(self, order: Sequence[str]) -> Ints:
        """Return the class of every row."""
        cells, known = [str(cell) for cell in self.cells(self.label)], set(order)
        for row, cell in enumerate(cells):
            if cell not in known:
                raise ConfigError(f"{self.place(row)}: {cell!r} is none of the {len(order)} classes")
        return numbered(cells, order)

    def owners(self) -> Ints:
        """Return whose every row is."""
        names = [str(cell) for cell in self.cells(self.client)]
        return numbered(names, in_order(names))

    def cells(self, column: str) -> list[Any]:
        """Return the cells of a column; an empty one is an error."""
        cells = [int(cell) if isinstance(cell, bool) else cell for cell in self.rows.with_format(None)[column]]
        for row, cell in enumerate(cells):
            if cell is None or cell == "":
                raise ConfigError(f"{self.place(row)}: the {column} is empty")
        return cells

    def place(self, row: int) -> str:
        """Return what a message calls a row: its number in the split."""
        return f"{self.title}, row {row if self.numbers is None else self.numbers[row]}"

    def images(self, labels: Ints, decoding: Decoding) -> HubImages:
        """Return a reader of the images."""
        rows = self.rows.with_format(None).select_columns([self.column])
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
        cell, name = self.table.rows[index][self.table.column], f"{self.table.place(index)}: the image"
        if cell is None or not (cell["bytes"] or cell["path"]):
            raise ConfigError(f"{name} is empty")
        name = name if cell["bytes"] else f"{name} {cell['path']}"
        return decode(cell["bytes"] or cell["path"], self.decoding, name), self.targets[index]


def _kind(feature: Any) -> str:
    """Return what a column holds: `image`, `class`, `text` or something else."""
    name = type(feature).__name__
    if name == "Value":
        return "text" if feature.dtype in ("string", "large_string") else str(feature.dtype)
    return {"Image": "image", "ClassLabel": "class"}.get(name, name)


def _first(title: str, features: Mapping[str, Any], option: str, fits: Callable[[str, Any], bool]) -> str:
    for name, feature in features.items():
        if fits(name, feature):
            return str(name)
    raise ConfigError(f"{title}: say which of {', '.join(features)} it is, --set data.{option}=NAME")
