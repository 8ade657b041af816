"""MNIST by writer: who wrote each digit is known from QMNIST, which traced all of them back to the NIST forms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.catalogue import source
from flatfed.data.class_names import DIGITS
from flatfed.data.formats.idx import read_idx
from flatfed.data.formats.numpy_files import opened
from flatfed.data.sources.published.mnist import CLASSES, MNIST, SIDE
from flatfed.data.storage.pool import Pool, image_pool

FILE = "mnist-writers.npz"
CLASS_COLUMN, WRITER_COLUMN = 0, 2
PARTS = {"train": "train", "test": "t10k"}
Arrays = dict[str, Any]


@source("mnist-writers", partition="natural")
def mnist_writers(directory: DataDirectory) -> Pool:
    """MNIST with a client for each of 539 writers: 60,000 train and 10,000 test, by others (QMNIST)."""
    path = directory.find("mnist-writers", FILE)
    arrays = _read(path)
    train, test = (_part(path, arrays, part) for part in PARTS)
    writers = torch.from_numpy(arrays["writer_train"].astype(np.int64))
    return image_pool(
        "mnist-writers",
        train,
        test,
        CLASSES,
        default_model="cnn",
        prepare=MNIST,
        groups={"writer": writers},
        class_names=DIGITS,
    )


def _read(path: Path) -> Arrays:
    """Return the arrays of the file, whole numbers all of them."""
    names = [f"{kind}_{part}" for part in PARTS for kind in ("x", "y", "writer")]
    with opened(path) as content:
        held = getattr(content, "files", ())
        if lacking := [name for name in names if name not in held]:
            raise ConfigError(f"{path} lacks an array: {lacking[0]}; it must hold {', '.join(names)}")
        arrays = {name: content[name] for name in names}
    for name, array in arrays.items():
        if array.dtype.kind not in "iu":
            raise ConfigError(f"{path} is damaged: {name} holds {array.dtype}, not whole numbers")
    return arrays


def _part(path: Path, arrays: Arrays, part: str) -> tuple[Tensor, Tensor]:
    images, labels, writers = (arrays[f"{kind}_{part}"] for kind in ("x", "y", "writer"))
    if images.shape[1:] != (SIDE, SIDE) or images.dtype != np.uint8 or not len(images):
        raise ConfigError(f"{path} is damaged: x_{part} must be images of bytes, N x {SIDE} x {SIDE}")
    if labels.shape != (len(images),) or writers.shape != (len(images),):
        raise ConfigError(f"{path} is damaged: y_{part} and writer_{part} must have a number for each image")
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise ConfigError(f"{path} is damaged: y_{part} has labels outside 0..{CLASSES - 1}")
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def assemble(directory: DataDirectory) -> None:
    """Write the file from MNIST and the extended labels of QMNIST.

    QMNIST has the train part of MNIST one by one and in its order, and the test part as its first 10,000 (arXiv
    1905.10498). That the classes agree is checked.
    """
    arrays: Arrays = {}
    for part, stem in PARTS.items():
        images, labels = (
            read_idx(directory.find("mnist", f"MNIST/raw/{stem}-{file}", f"MNIST/raw/{stem}-{file}.gz"))
            for file in ("images-idx3-ubyte", "labels-idx1-ubyte")
        )
        path = directory.find("mnist-writers", f"QMNIST/raw/qmnist-{part}-labels-idx2-int")
        traced = read_idx(path, axes=2)[: len(labels)]
        if len(traced) < len(labels) or not np.array_equal(traced[:, CLASS_COLUMN], labels):
            raise ConfigError(f"{path} does not fit MNIST: its classes are others than those of the {part} part")
        arrays |= {f"x_{part}": images, f"y_{part}": labels, f"writer_{part}": traced[:, WRITER_COLUMN]}
    target = directory.path / FILE
    temporary = target.with_name(f".{FILE}.{os.getpid()}.npz")
    try:
        np.savez_compressed(temporary, **arrays)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
