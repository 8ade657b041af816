"""Handwritten digits that come with scikit-learn: no download, a run of seconds."""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flatfed.core.errors import ConfigError
from flatfed.core.randomness import key
from flatfed.data.augment import Crop
from flatfed.data.catalogue import source
from flatfed.data.storage.pool import Normalise, Pool, image_pool

CLASS_NAMES = tuple(f"digit {digit}" for digit in range(10))
CLASSES = len(CLASS_NAMES)
TEST_PER_CLASS = 36
SIDE = 8
WHITE = 16.0
MEAN = (0.30542,)
STD = (0.37609,)


@source("digits")
def digits() -> Pool:
    """Handwritten digits, 8x8 grey, 10 classes, 1,437 train and 360 test (scikit-learn)."""
    pixels, labels = _load_digits()
    images = torch.from_numpy(pixels.astype(np.uint8)).unsqueeze(1)
    targets = torch.from_numpy(labels)
    test = _test_mask(labels)
    return image_pool(
        "digits",
        (images[~test], targets[~test]),
        (images[test], targets[test]),
        CLASSES,
        default_model="cnn-small",
        prepare=Normalise(MEAN, STD, scale=WHITE),
        augment=Crop(padding=1),
        class_names=CLASS_NAMES,
    )


def _load_digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return images and labels out of scikit-learn's own file: to import that library takes as long as PyTorch does."""
    table = _read_table()
    return table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1]


def _read_table() -> np.ndarray[Any, Any]:
    """Return a row for each image: its pixels and its label."""
    for folder in _library_folders():
        path = Path(folder, "datasets", "data", "digits.csv.gz")
        if path.exists():
            with gzip.open(path, "rt") as file:
                rows = file.read().split()
            # Written as decimals, all of them whole.
            return np.fromstring(",".join(rows), sep=",").astype(np.int64).reshape(len(rows), -1)
    raise ConfigError("the data set 'digits' needs scikit-learn; pip install 'flatfed[data]'")


def _library_folders() -> Sequence[str]:
    """Return where scikit-learn is installed, without importing it."""
    spec = importlib.util.find_spec("sklearn")
    return () if spec is None else list(spec.submodule_search_locations or ())


def _test_mask(targets: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return which images are for the test: of each class those with the smallest keys.

    Keys (a hash) instead of a generator: the split is the same under every seed and every version of NumPy.
    """
    keys = np.array([key(0, "digits test", i) for i in range(len(targets))])
    mask = torch.zeros(len(targets), dtype=torch.bool)
    for label in range(CLASSES):
        members = np.flatnonzero(targets == label)
        mask[members[np.argsort(keys[members])][:TEST_PER_CLASS]] = True
    return mask
