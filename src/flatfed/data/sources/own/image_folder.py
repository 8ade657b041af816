"""Any classification of images that lies in a folder for each class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flatfed.core.configuration.checking import Count, Index
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import source
from flatfed.data.directory import DataDirectory
from flatfed.data.formats.image_folders import Listing, class_names, list_classes
from flatfed.data.formats.images import Channels, Decoding, Fit, Gigabytes
from flatfed.data.storage.held_out import Share, file_keys, held_out
from flatfed.data.storage.image_files import TEST, TRAIN, file_pool
from flatfed.data.storage.pool import Pool

NAME = "image-folder"
TEST_FOLDERS = ("test", "val", "valid", "validation")


@source(NAME)
def image_folder(
    directory: DataDirectory,
    path: str = "",
    test_share: Share = 0.1,
    size: Count = 64,
    crop: Index = 0,
    fit: Fit = "crop",
    channels: Channels = 3,
    augment: str = "none",
    memory: Gigabytes = 1.0,
    verify: bool = False,
) -> Pool:
    """Images of your own: a folder for each class (data.path), or train/ and test/ with such folders.

    `path` is looked for here, then in the data directory. Without a test folder, `test_share` of each class is
    kept for the test, the same in every run. Images are decoded to `size` x `size` pixels, of which a model takes the
    middle `crop` x `crop` (0: all). `augment` names augmentations: `crop-flip`, or `resized-crop,flip` for photographs.
    """
    folder = directory.find_own(NAME, path)
    decoding = Decoding(size, crop, fit, channels, memory, verify)
    train, test, classes = _parts(folder, test_share)
    pool = file_pool(NAME, {TRAIN: train, TEST: test}, len(classes), decoding, "cnn", augment)
    return replace(pool, class_names=classes)


def _parts(folder: Path, share: float) -> tuple[Listing, Listing, list[str]]:
    """Return the training and test images and the names of the classes."""
    if not (folder / TRAIN).is_dir():
        classes = _classes(folder)
        return *_divided(folder, list_classes(folder, classes), share), classes
    classes = _classes(folder / TRAIN)
    train = list_classes(folder / TRAIN, classes)
    test_folder = _test_folder(folder)
    if test_folder is None:
        return *_divided(folder / TRAIN, train, share), classes
    # A test may lack a class; training may not.
    return train, list_classes(test_folder, classes, complete=False), classes


def _classes(root: Path) -> list[str]:
    classes = class_names(root)
    if len(classes) < 2:
        raise ConfigError(f"{root} has one class, {classes[0]!r}; a classification needs two or more")
    return classes


def _test_folder(folder: Path) -> Path | None:
    """Return the folder of test images beside that of training images, under the first usual name."""
    for name in TEST_FOLDERS:
        if (folder / name).is_dir():
            return folder / name
    return None


def _divided(root: Path, images: Listing, share: float) -> tuple[Listing, Listing]:
    """Return the images with a share of each class kept for the test."""
    held = held_out(file_keys(images.files, f"{NAME} test", root), images.labels, share)
    if not held.any():
        raise ConfigError(f"{root} has one image of each class, none of which can be kept for a test; add images")
    return images.where(~held), images.where(held)
