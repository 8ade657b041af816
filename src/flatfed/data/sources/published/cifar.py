"""CIFAR-10 and CIFAR-100, from the binary layout or, where that is not there, the Python layout."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from flatfed.data.augment import Chain, Crop, Flip
from flatfed.data.catalogue import Download, Expected, Moments, Official, source
from flatfed.data.catalogue.expected import QUOTED
from flatfed.data.catalogue.official import in_folder
from flatfed.data.catalogue.whole_files import last_bytes
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.cifar import PIXELS, CifarLabels, read_binary, read_pickled
from flatfed.data.storage.pool import Normalise, Pool, image_pool

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

CLASS = CifarLabels("labels", 10)
COARSE, FINE = CifarLabels("coarse_labels", 20), CifarLabels("fine_labels", 100)
BATCHES = [f"data_batch_{i}" for i in range(1, 6)]
CROP_AND_FLIP = Chain((Crop(padding=4), Flip(p=0.5)))
"""The papers' augmentation, drawn for each image: a crop after zero-padding, and a horizontal flip."""

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FINE_NAMES = (
    *("apple", "aquarium fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle"),
    *("bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle"),
    *("chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur"),
    *("dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard"),
    *("lamp", "lawn mower", "leopard", "lion", "lizard", "lobster", "man", "maple tree", "motorcycle", "mountain"),
    *("mouse", "mushroom", "oak tree", "orange", "orchid", "otter", "palm tree", "pear", "pickup truck", "pine tree"),
    *("plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket"),
    *("rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider"),
    *("squirrel", "streetcar", "sunflower", "sweet pepper", "table", "tank", "telephone", "television", "tiger"),
    *("tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow tree", "wolf", "woman", "worm"),
)
COARSE_NAMES = (
    *("aquatic mammals", "fish", "flowers", "food containers", "fruit and vegetables"),
    *("household electrical devices", "household furniture", "insects", "large carnivores"),
    *("large man-made outdoor things", "large natural outdoor scenes", "large omnivores and herbivores"),
    *("medium-sized mammals", "non-insect invertebrates", "people", "reptiles", "small mammals", "trees"),
    *("vehicles 1", "vehicles 2"),
)

BINARY_LENGTHS = {
    **{f"data_batch_{number}.bin": 10_000 * (1 + PIXELS) for number in range(1, 6)},
    "test_batch.bin": 10_000 * (1 + PIXELS),
    "train.bin": 50_000 * (2 + PIXELS),
    "test.bin": 10_000 * (2 + PIXELS),
}
"""The lengths of the files of the binary layout: a label byte or two and the pixels for each image."""
END_OF_PICKLE = b"."


def whole_cifar(path: Path) -> bool:
    """Say whether a file has all records or, in the Python layout, the end of a pickle."""
    if path.suffix == ".bin":
        return path.stat().st_size == BINARY_LENGTHS.get(path.name)
    return last_bytes(path, 1) == END_OF_PICKLE


def _official(archive: str, md5: str, size: int, binary: dict[str, str], pickled: dict[str, str]) -> Official:
    """Return the official files: the archive that is fetched has the binary layout."""
    download = Download((f"https://www.cs.toronto.edu/~kriz/{archive}.tar.gz",), md5, tuple(binary), size=size)
    return Official("https://www.cs.toronto.edu/~kriz/cifar.html", (download,), (binary, pickled), whole=whole_cifar)


@source(
    "cifar10",
    official=_official(
        "cifar-10-binary",
        md5="c32a1d4ab5d03f1284b67883e8d87530",
        size=170_052_171,
        binary=in_folder(
            "cifar-10-batches-bin",
            {
                "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
                "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
                "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
                "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
                "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
                "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
            },
        ),
        pickled=in_folder(
            "cifar-10-batches-py",
            {
                "data_batch_1": "c99cafc152244af753f735de768cd75f",
                "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                "data_batch_4": "634d18415352ddfa80567beed471001a",
                "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                "test_batch": "40351d587109b95175f43aff81a1287e",
            },
        ),
    ),
    expected=Expected(
        train=50_000,
        test=10_000,
        classes=10,
        per_class=(5_000,) * 10,
        train_moments=Moments(
            (0.49139967861519607, 0.48215840839460783, 0.44653091444546567),
            (0.2470322324632821, 0.2434851280000555, 0.26158784172796445),
        ),
        test_moments=Moments(
            (0.4942142800245098, 0.4851313890165441, 0.4504090927542892),
            (0.24665251509497996, 0.2428922634600537, 0.26159237802202345),
        ),
    ),
)
def cifar10(directory: DataDirectory, normalisation: Whose = "fedsam") -> Pool:
    """Small pictures, 32x32 RGB, 10 classes, 50,000 train and 10,000 test (CIFAR-10).

    `normalisation`: whose constants, `fedsam` or `fedgloss` (another standard deviation).
    """
    folders = ("cifar-10-batches-bin", "cifar-10-batches-py")
    train, [train_labels] = _read("cifar10", directory, folders, BATCHES, [CLASS])
    test, [test_labels] = _read("cifar10", directory, folders, ["test_batch"], [CLASS])
    return image_pool(
        "cifar10",
        (train, train_labels),
        (test, test_labels),
        CLASS.classes,
        default_model="cnn",
        prepare=CIFAR10[normalisation],
        augment=CROP_AND_FLIP,
        class_names=CIFAR10_NAMES,
    )


@source(
    "cifar100",
    official=_official(
        "cifar-100-binary",
        md5="03b5dce01913d631647c71ecec9e9cb8",
        size=168_513_733,
        binary=in_folder(
            "cifar-100-binary",
            {"train.bin": "6172c7755cfe09b2fe270c85cebc1b15", "test.bin": "4499cfba6c016c1be1438163640a0898"},
        ),
        pickled=in_folder(
            "cifar-100-python",
            {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
        ),
    ),
    expected=Expected(
        train=50_000,
        test=10_000,
        classes=100,
        per_class=(500,) * 100,
        groups={"coarse": 20},
        train_moments=Moments((0.50707516, 0.48654887, 0.44091784), (0.26733429, 0.25643846, 0.27615047), QUOTED),
    ),
)
def cifar100(
    directory: DataDirectory, labels: Literal["fine", "coarse"] = "fine", normalisation: Whose = "fedsam"
) -> Pool:
    """Small pictures, 32x32 RGB, 100 classes in 20 groups, 50,000 train and 10,000 test (CIFAR-100).

    `labels`: what is learnt, the 100 `fine` or the 20 `coarse` classes. `normalisation`: `fedsam` or `fedgloss`.
    """
    folders = ("cifar-100-binary", "cifar-100-python")
    kinds = [COARSE, FINE]
    train, train_labels = _read("cifar100", directory, folders, ["train"], kinds)
    test, test_labels = _read("cifar100", directory, folders, ["test"], kinds)
    column = ["coarse", "fine"].index(labels)
    return image_pool(
        "cifar100",
        (train, train_labels[column]),
        (test, test_labels[column]),
        kinds[column].classes,
        default_model="cnn",
        prepare=CIFAR100[normalisation],
        augment=CROP_AND_FLIP,
        # Whatever is learnt: the partition `pam` goes by them.
        groups={"coarse": train_labels[0]},
        class_names=[COARSE_NAMES, FINE_NAMES][column],
    )


def _read(
    name: str, directory: DataDirectory, folders: tuple[str, str], files: list[str], kinds: list[CifarLabels]
) -> tuple[Tensor, list[Tensor]]:
    """Return images and labels from the first layout that is there."""
    folder = directory.find(name, *folders).name
    if folder == folders[0]:
        images, labels = read_binary(_paths(name, directory, folder, files, ".bin"), kinds)
    else:
        images, labels = read_pickled(_paths(name, directory, folder, files, ""), kinds)
    return torch.from_numpy(images), list(map(torch.from_numpy, labels))


def _paths(name: str, directory: DataDirectory, folder: str, files: list[str], ending: str) -> list[Path]:
    return [directory.find(name, f"{folder}/{file}{ending}") for file in files]
