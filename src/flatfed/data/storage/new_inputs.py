"""Inputs that a model has not seen, as raw as those that it was trained on.

How files become inputs belongs to the data set: `Pool.reader`. Here are readers of images and arrays; that of texts
stands beside the vocabulary, those of tables beside their columns. A pool of images in memory needs none of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.data.formats.image_folders import ENDINGS
from flatfed.data.formats.images import Decoding, decode, size_of
from flatfed.data.formats.numpy_files import opened
from flatfed.data.storage.pool import Normalise, Pool


@dataclass(frozen=True)
class FileReading:
    """What the user says about files.

    Args:
        resize: bring images of another size to that of the data set.
        whole: take each file for one text, not each of its lines.
        column: the column of a CSV file that holds the texts.
    """

    resize: bool = False
    whole: bool = False
    column: str = ""


@dataclass(frozen=True)
class NewInputs:
    """Raw inputs: what each is called, and `read(first, count)`, a batch of them.

    `quantity` turns a regression's output into the unit of its target, where it was trained in another.
    """

    names: Sequence[str]
    read: Callable[[int, int], Tensor]
    quantity: Callable[[float], float] | None = None


class InputReader(Protocol):
    """What makes raw inputs of files, just as those of its data set were made."""

    def open(self, files: Sequence[Path], how: FileReading) -> NewInputs:
        """Return the inputs that files hold; a file that holds none is an error."""
        ...


def of_tensor(names: Sequence[str], inputs: Tensor, quantity: Callable[[float], float] | None = None) -> NewInputs:
    """Return inputs that are all in memory."""
    return NewInputs(names, lambda first, count: inputs[first : first + count], quantity)


@dataclass(frozen=True)
class ImageReader:
    """Reads image files; a folder stands for the images in it.

    Args:
        decoding: as those of the data set were decoded.
        exact: the data set's images all have its size, so that one of another size is a mistake.
        white: the raw value of a white pixel.
    """

    decoding: Decoding
    exact: bool = False
    white: float = 255.0

    def open(self, files: Sequence[Path], how: FileReading) -> NewInputs:
        """Return the images; they are decoded batch by batch."""
        found = [image for file in files for image in _images(file)]
        if self.exact and not how.resize:
            for file in found:
                self._check_size(file)
        return NewInputs(
            list(map(str, found)),
            lambda first, count: torch.stack([self._raw(file) for file in found[first : first + count]]),
        )

    def _raw(self, file: Path) -> Tensor:
        pixels = decode(file, self.decoding)
        if self.white == 255.0:
            return pixels
        return (pixels.double() * (self.white / 255.0)).round().to(torch.uint8)

    def _check_size(self, file: Path) -> None:
        side, actual = self.decoding.size, size_of(file)
        if actual != (side, side):
            raise ConfigError(
                f"{file} has {actual[0]} x {actual[1]} pixels, the data set's images {side} x {side}; {PARAMETER} cuts "
                "the middle square out and brings it to that size",
                parameter="resize",
            )


def _images(path: Path) -> list[Path]:
    """Return an image, or the images in a folder and the folders in it, by name."""
    if not path.is_dir():
        return [path]
    inside = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    images = sorted(file for file in inside if file.suffix.lower() in ENDINGS)
    if not images:
        raise ConfigError(f"{path} holds no image ({', '.join(sorted(ENDINGS))})")
    return images


def reader_of(pool: Pool) -> InputReader | None:
    """Return what reads new inputs of a data set: its own reader, or that of images in memory; None where none can."""
    if pool.reader is not None:
        return pool.reader
    inputs, targets = pool.test.batch(torch.arange(1))
    if targets.ndim != 1 or inputs.dtype != torch.uint8 or inputs.ndim != 4:
        return None
    channels, height, width = inputs.shape[1:]
    if channels not in (1, 3) or height != width:
        return None
    white = pool.prepare.scale if isinstance(pool.prepare, Normalise) else 255.0
    return ImageReader(Decoding(size=height, crop=0, channels=1 if channels == 1 else 3), exact=True, white=white)


@dataclass(frozen=True)
class ArrayReader:
    """Reads NumPy files of raw inputs, whatever they are: N of them, each of one `shape`."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def open(self, files: Sequence[Path], how: FileReading) -> NewInputs:
        """Return the inputs of all files."""
        parts = list(map(self._array, files))
        names = [f"{file}, {number}" for file, part in zip(files, parts, strict=True) for number in range(len(part))]
        return of_tensor(names, torch.cat(parts))

    def _array(self, file: Path) -> Tensor:
        with opened(file) as array:
            if not hasattr(array, "shape") or tuple(array.shape[1:]) != self.shape or array.dtype.kind not in "fiub":
                wanted = " x ".join(["N", *map(str, self.shape)])
                raise ConfigError(f"{file} must be an array of {wanted} numbers, as the run's own inputs are")
            if not len(array):
                raise ConfigError(f"{file} holds no input")
            return self._raw(file, array)

    def _raw(self, file: Path, array: np.ndarray[Any, Any]) -> Tensor:
        """Return raw inputs in their own type; numbers that it does not have were prepared already."""
        known = np.float64 if array.dtype.kind == "f" else np.int64  # torch knows no other order of bytes
        given = torch.from_numpy(array.astype(known))
        raw = given.to(self.dtype)
        if not self.dtype.is_floating_point and not torch.equal(raw.to(given.dtype), given):
            name = str(self.dtype).removeprefix("torch.")
            raise ConfigError(f"{file} holds numbers that are not {name}; give raw inputs, as the data set has them")
        return raw
