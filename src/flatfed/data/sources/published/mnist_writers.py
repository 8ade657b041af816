"""MNIST by writer: who wrote each digit is known from QMNIST, which traced all of them back to the NIST forms."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import Download, Official, source
from flatfed.data.catalogue.whole_files import whole_idx
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.idx import read_idx
from flatfed.data.formats.numpy_files import opened
from flatfed.data.sources.published.idx_images import SIDE, idx_files
from flatfed.data.sources.published.mnist import DIGITS, EXPECTED_MNIST, MNIST, MNIST_FOLDER
from flatfed.data.storage.pool import Pool, image_pool

NAME = "mnist-writers"
FILE = "mnist-writers.npz"
CLASSES = len(DIGITS)
CLASS_COLUMN, WRITER_COLUMN = 0, 2
PARTS = {"train": "train", "test": "t10k"}
KINDS = ("x", "y", "writer")
ARRAYS = [f"{kind}_{part}" for part in PARTS for kind in KINDS]
Arrays = dict[str, Any]


def whole_writers(path: Path) -> bool:
    """Say whether an NPZ file has its table of contents, which is at its end; other files are idx files."""
    if path.suffix == ".npz":
        return zipfile.is_zipfile(path)
    return whole_idx(path)


def assemble(directory: DataDirectory) -> None:
    """Write the file from MNIST and the extended labels of QMNIST.

    QMNIST has the train part of MNIST one by one and in its order, and the test part as its first 10,000 (arXiv
    1905.10498). That the classes agree is checked.
    """
    arrays: Arrays = {}
    for part, stem in PARTS.items():
        arrays |= _traced(directory, part, stem)
    target = directory.path / FILE
    # NumPy would add .npz to a name that ends otherwise.
    temporary = target.with_name(f".{FILE}.{os.getpid()}.npz")
    try:
        np.savez_compressed(temporary, **arrays)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _traced(directory: DataDirectory, part: str, stem: str) -> Arrays:
    """Return the images, classes and writers of a part."""
    images, labels = map(read_idx, idx_files("mnist", directory, f"{MNIST_FOLDER}/{stem}"))
    path = directory.find(NAME, _label_file(part))
    rows = read_idx(path, axes=2)[: len(labels)]
    if len(rows) < len(labels) or not np.array_equal(rows[:, CLASS_COLUMN], labels):
        raise ConfigError(f"{path} does not fit MNIST: its classes are others than those of the {part} part")
    return {f"x_{part}": images, f"y_{part}": labels, f"writer_{part}": rows[:, WRITER_COLUMN]}


def _label_file(part: str) -> str:
    return f"QMNIST/raw/qmnist-{part}-labels-idx2-int"


def _download(part: str, md5: str) -> Download:
    file = _label_file(part)
    address = "https://raw.githubusercontent.com/facebookresearch/qmnist/master"
    return Download((f"{address}/{Path(file).name}.gz",), md5, (file,), str(Path(file).parent))


@source(
    NAME,
    partition="natural",
    official=Official(
        "https://github.com/facebookresearch/qmnist",
        downloads=(
            _download("train", "0058f8dd561b90ffdd0f734c6a30e5e4"),
            _download("test", "5b5b05890a5e13444e108efe57b788aa"),
        ),
        layouts=({FILE: ""},),
        needs=("mnist",),
        assemble=assemble,
        whole=whole_writers,
    ),
    expected=replace(EXPECTED_MNIST, groups={"writer": 539}),
)
def mnist_writers(directory: DataDirectory) -> Pool:
    """MNIST with a client for each of 539 writers: 60,000 train and 10,000 test, by others (QMNIST)."""
    path = directory.find(NAME, FILE)
    arrays = _read(path)
    train, test = (_part(path, arrays, part) for part in PARTS)
    writers = torch.from_numpy(arrays["writer_train"].astype(np.int64))
    return image_pool(
        NAME,
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
    with opened(path) as content:
        missing = set(ARRAYS).difference(getattr(content, "files", ()))
        if missing:
            first = min(missing, key=ARRAYS.index)
            raise ConfigError(f"{path} lacks an array: {first}; it must hold {', '.join(ARRAYS)}")
        arrays = {name: content[name] for name in ARRAYS}
    for name, array in arrays.items():
        if array.dtype.kind not in "iu":
            raise ConfigError(f"{path} is damaged: {name} holds {array.dtype}, not whole numbers")
    return arrays


def _part(path: Path, arrays: Arrays, part: str) -> tuple[Tensor, Tensor]:
    images, labels, writers = (arrays[f"{kind}_{part}"] for kind in KINDS)
    if not _are_images(images):
        raise ConfigError(f"{path} is damaged: x_{part} must be images of bytes, N x {SIDE} x {SIDE}")
    if not labels.shape == writers.shape == (len(images),):
        raise ConfigError(f"{path} is damaged: y_{part} and writer_{part} must have a number for each image")
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise ConfigError(f"{path} is damaged: y_{part} has labels outside 0..{CLASSES - 1}")
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def _are_images(array: Any) -> bool:
    return array.shape[1:] == (SIDE, SIDE) and array.dtype == np.uint8 and len(array) > 0
