"""What MNIST and data sets like it share: four idx files of grey images, 28x28, and of their classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import Download, Official
from flatfed.data.catalogue.official import in_folder
from flatfed.data.catalogue.whole_files import whole_idx
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.idx import read_idx
from flatfed.data.storage.pool import Normalise, Pool, image_pool

SIDE = 28
TRAIN, TEST = "train", "t10k"
"""How the names of the files begin."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class IdxFile:
    """An official idx file, which is published gzipped.

    Args:
        gzipped_md5: the checksum of the gzipped file, which is checked when it is fetched.
        md5: the checksum of its content, where known; with it `flatfed data check` recognises the file.
        size: the length of the gzipped file in bytes, where known.
    """

    gzipped_md5: str
    md5: str = ""
    size: int | None = None


def official_idx(home: str, base: str, folder: str, files: dict[str, IdxFile]) -> Official:
    """Return the official files of a data set: by name, below the address `base`, put into `folder`."""
    downloads = tuple(
        Download((f"{base}{name}.gz",), file.gzipped_md5, (f"{folder}/{name}",), folder, file.size)
        for name, file in files.items()
    )
    layout = in_folder(folder, {name: file.md5 for name, file in files.items()})
    return Official(home, downloads, (layout,), whole=whole_idx)


def idx_pool(
    name: str, directory: DataDirectory, folder: str, prepare: Normalise, class_names: tuple[str, ...]
) -> Pool:
    """Return the data set whose four files are in `folder`; they may be gzipped."""
    train, test = (_read_part(name, directory, f"{folder}/{part}", len(class_names)) for part in (TRAIN, TEST))
    return image_pool(
        name, train, test, len(class_names), default_model="cnn", prepare=prepare, class_names=class_names
    )


def idx_files(name: str, directory: DataDirectory, stem: str) -> tuple[Path, Path]:
    """Return where the images and the labels of a part are; the files may be gzipped."""
    images, labels = f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte"
    return directory.find(name, images, f"{images}.gz"), directory.find(name, labels, f"{labels}.gz")


def _read_part(name: str, directory: DataDirectory, stem: str, classes: int) -> tuple[Tensor, Tensor]:
    image_file, label_file = idx_files(name, directory, stem)
    images = _read_bytes(image_file, axes=3)
    labels = _read_bytes(label_file, axes=1)
    _check_images(image_file, images)
    if len(images) != len(labels):
        raise ConfigError(f"{image_file} holds {len(images):,} images, but {label_file} {len(labels):,} labels")
    if labels.max() >= classes:
        raise ConfigError(f"{label_file} is damaged: it has labels outside 0..{classes - 1}; get it again")
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def _read_bytes(path: Path, axes: int) -> Bytes:
    array = read_idx(path, axes=axes)
    if array.dtype != np.uint8:
        raise ConfigError(f"{path} holds {array.dtype} numbers, not bytes; is it under the wrong name?")
    return array


def _check_images(path: Path, images: Bytes) -> None:
    if not len(images):
        raise ConfigError(f"{path} holds no images; get it again")
    height, width = images.shape[1:]
    if (height, width) != (SIDE, SIDE):
        raise ConfigError(f"{path} holds images of {height}x{width} pixels, not {SIDE}x{SIDE}; is it another set?")
