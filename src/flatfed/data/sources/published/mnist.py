"""MNIST and Fashion-MNIST, from their idx files."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data import class_names
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.formats.idx import read_idx
from flatfed.data.storage.pool import Pool, image_pool
from flatfed.data.storage.transforms import Normalise

CLASSES, SIDE = 10, 28
MNIST = Normalise(mean=(0.1307,), std=(0.3081,))
FASHION_MNIST = Normalise(mean=(0.2860,), std=(0.3530,))


@source("mnist")
def mnist(directory: DataDirectory) -> Pool:
    """Handwritten digits, 28x28 grey, 10 classes, 60,000 train and 10,000 test (MNIST)."""
    return _pool("mnist", directory, "MNIST/raw", MNIST, class_names.DIGITS)


@source("fashion-mnist")
def fashion_mnist(directory: DataDirectory) -> Pool:
    """Pictures of clothes, 28x28 grey, 10 classes, 60,000 train and 10,000 test (Fashion-MNIST)."""
    return _pool("fashion-mnist", directory, "FashionMNIST/raw", FASHION_MNIST, class_names.FASHION_MNIST)


def _pool(name: str, directory: DataDirectory, folder: str, prepare: Normalise, names: tuple[str, ...]) -> Pool:
    train, test = (_part(name, directory, f"{folder}/{part}") for part in ("train", "t10k"))
    return image_pool(name, train, test, CLASSES, default_model="cnn", prepare=prepare, class_names=names)


def _part(name: str, directory: DataDirectory, stem: str) -> tuple[Tensor, Tensor]:
    """Return the images and labels of the train or test part; the files may be gzipped."""
    paths = [
        directory.find(name, f"{stem}-{file}", f"{stem}-{file}.gz")
        for file in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    images, labels = read_idx(paths[0], axes=3), read_idx(paths[1], axes=1)
    for path, array in zip(paths, (images, labels), strict=True):
        if array.dtype != np.uint8:
            raise ConfigError(f"{path} holds {array.dtype} numbers, not bytes; is it under the wrong name?")
    if not len(images):
        raise ConfigError(f"{paths[0]} holds no images; get it again")
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise ConfigError(f"{paths[0]} holds images of {height}x{width} pixels, not {SIDE}x{SIDE}; is it another set?")
    if len(images) != len(labels):
        raise ConfigError(f"{paths[0]} holds {len(images):,} images, but {paths[1]} {len(labels):,} labels")
    if labels.max() >= CLASSES:
        raise ConfigError(f"{paths[1]} is damaged: it has labels outside 0..{CLASSES - 1}; get it again")
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))
