"""Folders of images: a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError, nearest

ENDINGS = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"),
)


@dataclass(frozen=True)
class Listing:
    """Files and the class of each."""

    files: tuple[str, ...]
    labels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.files)

    def where(self, mask: npt.NDArray[np.bool_]) -> Listing:
        """Return some of the files."""
        return Listing(tuple(self.files[i] for i in np.flatnonzero(mask)), self.labels[mask])


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder in order of their names; hidden ones (`.name`, `__name`) do not count."""
    _check_folder(folder)
    return sorted(filter(_is_visible_folder, folder.iterdir()))


def _is_visible_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "__"))


def _check_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if folder.exists():
        raise ConfigError(f"the folder {folder} is a file, not a folder")
    raise ConfigError(f"the folder {folder} is missing")


def class_names(folder: Path) -> list[str]:
    """Return the classes of a folder, the names of the folders in it."""
    names = [path.name for path in subfolders(folder)]
    if not names:
        raise ConfigError(f"{folder} has no folders; it must have one for each class, with the images of the class")
    return names


def images_in(folder: Path) -> list[str]:
    """Return the image files in a folder and the folders below it, in order; that there are none is an error."""
    files: list[str] = []
    for place, _, names in os.walk(folder):
        # `os.path`: for hundreds of thousands of files `Path` would take several times as long.
        files += [os.path.join(place, name) for name in filter(_is_image, names)]  # noqa: PTH118
    if not files:
        raise ConfigError(f"{folder} has no images; those end in {', '.join(sorted(ENDINGS))}")
    # Sorted, because `os.walk` follows the file system, and the order decides the indices.
    return sorted(files)


def _is_image(name: str) -> bool:
    ending = name[name.rfind(".") :].lower()
    return ending in ENDINGS and not name.startswith(".")


def list_classes(folder: Path, classes: Sequence[str], complete: bool = True) -> Listing:
    """Return the images of a folder that has a folder for each class.

    A class folder without images is an error, and so is a folder that is none of the classes or, where it must be
    `complete`, a class without a folder.
    """
    present = class_names(folder)
    _check_known(folder, present, classes)
    if complete:
        _check_complete(folder, present, classes)
    files: list[str] = []
    labels: list[int] = []
    for name in present:
        images = images_in(folder / name)
        files += images
        labels += [classes.index(name)] * len(images)
    return Listing(tuple(files), np.array(labels, np.int64))


def _check_known(folder: Path, present: Sequence[str], classes: Sequence[str]) -> None:
    for name in present:
        if name not in classes:
            raise ConfigError(f"{folder / name}: {nearest(name, classes, 'class')}")


def _check_complete(folder: Path, present: Sequence[str], classes: Sequence[str]) -> None:
    for name in classes:
        if name not in present:
            raise ConfigError(
                f"{folder} has no folder for the class {name!r}; {len(classes)} classes are expected there"
            )
