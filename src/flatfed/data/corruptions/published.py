"""The published files: CIFAR-10-C and CIFAR-100-C, one `.npy` per corruption, memory-mapped.

Each holds five times the test set, severity 1 first, as bytes N x height x width x 3; `labels.npy` goes with all.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.corruptions.corruption_types import SEVERITIES, find
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.numpy_files import opened

SETS = {"cifar10": ("CIFAR-10-C", 10), "cifar100": ("CIFAR-100-C", 100)}
"""The folder and the number of classes for each data set of which there are published corruptions."""
LABELS = "labels.npy"


class PublishedExamples:
    """One corruption at one severity, read from its file; the file is mapped by each process that reads it."""

    def __init__(self, file: Path, labels: Path, severity: int) -> None:
        self.file, self.labels, self.severity = file, labels, severity
        self.count = len(_mapped(file)) // len(SEVERITIES)

    def __len__(self) -> int:
        return self.count

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return images N x 3 x height x width, bytes, and their classes."""
        places = indices.numpy() + (self.severity - 1) * self.count
        images = np.ascontiguousarray(_mapped(self.file)[places].transpose(0, 3, 1, 2))
        return torch.from_numpy(images), torch.from_numpy(_mapped(self.labels)[places].astype(np.int64))


def has_published(dataset: str, name: str, data_dir: str | Path | None = None) -> bool:
    """Say whether the published file of a corruption lies in the data directory."""
    return dataset in SETS and (_folder(dataset, data_dir) / f"{find(name).name}.npy").exists()


def published(dataset: str, name: str, severity: int, data_dir: str | Path | None = None) -> PublishedExamples:
    """Return the published test set of a corruption and severity; a damaged file is an error that names it."""
    if dataset not in SETS:
        raise ConfigError(f"there are published corruptions of {' and '.join(SETS)}, not of {dataset}")
    folder = _folder(dataset, data_dir)
    file, labels = folder / f"{find(name).name}.npy", folder / LABELS
    _check(file, labels, SETS[dataset][1])
    return PublishedExamples(file, labels, severity)


def _folder(dataset: str, data_dir: str | Path | None) -> Path:
    return DataDirectory(data_dir).path / SETS[dataset][0]


def _check(file: Path, labels: Path, classes: int) -> None:
    images = _mapped(file)
    shaped = images.ndim == 4 and images.shape[3] == 3 and images.size > 0
    if not shaped or images.dtype != np.uint8 or len(images) % len(SEVERITIES):
        raise ConfigError(
            f"{file}: {images.dtype} {images.shape} found; five times the test set is expected, as bytes "
            "N x height x width x 3"
        )
    _check_labels(labels, file, len(images), classes)


def _check_labels(labels: Path, file: Path, count: int, classes: int) -> None:
    targets = _mapped(labels)
    if targets.shape != (count,) or not np.issubdtype(targets.dtype, np.integer):
        raise ConfigError(f"{labels}: a whole number for each of the {count} images of {file.name} is expected")
    if int(targets.min()) < 0 or int(targets.max()) >= classes:
        raise ConfigError(f"{labels}: labels outside 0..{classes - 1}")


@functools.lru_cache(maxsize=32)
def _mapped(path: Path) -> NDArray[Any]:
    if not path.exists():
        raise ConfigError(f"{path} is missing; it belongs to the published corruptions")
    with opened(path, mmap="r") as array:
        if not isinstance(array, np.ndarray):
            raise ConfigError(f"{path} is not a single NumPy array")
        return array
