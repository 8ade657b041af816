"""Handwritten digits that come with scikit-learn: no download, a run of seconds."""

from __future__ import annotations

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
WHITE = 16.0
MEAN = (0.30542,)
STD = (0.37609,)


@source("digits")
def digits() -> Pool:
    """Handwritten digits, 8x8 grey, 10 classes, 1,437 train and 360 test (scikit-learn)."""
    bunch = _load_digits()
    images = torch.from_numpy(bunch.images.astype(np.uint8)).unsqueeze(1)
    targets = torch.from_numpy(bunch.target.astype(np.int64))
    test = _test_mask(bunch.target)
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


def _load_digits() -> Any:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ConfigError("the data set 'digits' needs scikit-learn; pip install 'flatfed[data]'") from error
    return load_digits()


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
