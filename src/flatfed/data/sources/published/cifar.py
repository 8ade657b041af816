"""CIFAR-10 and CIFAR-100, from the binary layout or, where that is not there, the Python layout."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from flatfed.data import class_names
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.augment import Chain, Crop, Flip
from flatfed.data.catalogue import source
from flatfed.data.formats.cifar import Labels, read_binary, read_pickled
from flatfed.data.storage.pool import Pool, image_pool
from flatfed.data.storage.transforms import Normalise

CIFAR10 = {
    "fedsam": Normalise(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010)),
    "fedgloss": Normalise(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2434, 0.2616)),
}
CIFAR100 = {
    "fedsam": Normalise(mean=(0.5071, 0.4867, 0.4408), std=(0.2675, 0.2565, 0.2761)),
    "fedgloss": Normalise(mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762)),
}
"""The constants of two papers' code: their results depend on them."""

Whose = Literal["fedsam", "fedgloss"]

CLASS = Labels("labels", 10)
COARSE, FINE = Labels("coarse_labels", 20), Labels("fine_labels", 100)
BATCHES = [f"data_batch_{i}" for i in range(1, 6)]
CROP_AND_FLIP = Chain((Crop(padding=4), Flip(p=0.5)))
"""The papers' augmentation, drawn for each image: a crop after zero-padding, and a horizontal flip."""


@source("cifar10")
def cifar10(directory: DataDirectory, normalisation: Whose = "fedsam") -> Pool:
    """Small pictures, 32x32 RGB, 10 classes, 50,000 train and 10,000 test (CIFAR-10).

    `normalisation`: whose constants, `fedsam` or `fedgloss` (another standard deviation).
    """
    folders = "cifar-10-batches-bin", "cifar-10-batches-py"
    (train, [train_labels]), (test, [test_labels]) = (
        _read("cifar10", directory, folders, files, [CLASS]) for files in (BATCHES, ["test_batch"])
    )
    return image_pool(
        "cifar10",
        (train, train_labels),
        (test, test_labels),
        CLASS.classes,
        default_model="cnn",
        prepare=CIFAR10[normalisation],
        augment=CROP_AND_FLIP,
        class_names=class_names.CIFAR10,
    )


@source("cifar100")
def cifar100(
    directory: DataDirectory, labels: Literal["fine", "coarse"] = "fine", normalisation: Whose = "fedsam"
) -> Pool:
    """Small pictures, 32x32 RGB, 100 classes in 20 groups, 50,000 train and 10,000 test (CIFAR-100).

    `labels`: what is learnt, the 100 `fine` or the 20 `coarse` classes. `normalisation`: `fedsam` or `fedgloss`.
    """
    folders, kinds = ("cifar-100-binary", "cifar-100-python"), [COARSE, FINE]
    (train, train_labels), (test, test_labels) = (
        _read("cifar100", directory, folders, [part], kinds) for part in ("train", "test")
    )
    column = 0 if labels == "coarse" else 1
    return image_pool(
        "cifar100",
        (train, train_labels[column]),
        (test, test_labels[column]),
        kinds[column].classes,
        default_model="cnn",
        prepare=CIFAR100[normalisation],
        augment=CROP_AND_FLIP,
        groups={"coarse": train_labels[0]},
        class_names=class_names.CIFAR100_COARSE if labels == "coarse" else class_names.CIFAR100_FINE,
    )


def _read(
    name: str, directory: DataDirectory, folders: tuple[str, str], files: list[str], kinds: list[Labels]
) -> tuple[Tensor, list[Tensor]]:
    """Return images and labels from the first layout that is there."""
    folder = directory.find(name, *folders).name
    read, ending = (read_binary, ".bin") if folder == folders[0] else (read_pickled, "")
    images, labels = read([directory.find(name, f"{folder}/{file}{ending}") for file in files], kinds)
    return torch.from_numpy(images), [torch.from_numpy(numbers) for numbers in labels]
