"""Image files, decoded with Pillow to bytes of one size, so that a batch of them stacks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from flatfed.core.configuration.config import Config, Count, Index, NonNegative
from flatfed.core.errors import ConfigError
from flatfed.data.storage.transforms import Normalise

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Fit = Literal["crop", "stretch"]
Channels = Literal[1, 3]
Gigabytes = NonNegative

DRAFT = 2
"""A large JPEG is decoded at a fraction of its size, but at so many times the size asked for at least."""


class Decoding(Config):
    """How image files become tensors.

    Args:
        size: side of the decoded square.
        crop: side of what a model takes, cut from the middle (training may cut elsewhere); 0 is `size`.
        fit: `crop` brings the shorter side to `size` and cuts the middle of the longer one; `stretch` keeps the whole
            picture and changes its proportions.
        channels: 3, or 1 for grey.
        memory: gigabytes. If all images fit, they are decoded once, at the start; else so much of them is kept at most,
            in each process.
        verify: decode every image once before anything else.
    """

    size: Count = 256
    crop: Index = 224
    fit: Fit = "crop"
    channels: Channels = 3
    memory: Gigabytes = 1.0
    verify: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crop > self.size:
            raise ConfigError(f"crop must be at most size, {self.size}, not {self.crop}")

    @property
    def side(self) -> int:
        """Side of what a model takes."""
        return self.crop or self.size

    @property
    def prepare(self) -> CropNormalise:
        """From a raw batch to what a model takes: the middle, normalised by ImageNet's colours (grey: about 0)."""
        if self.channels == 3:
            return CropNormalise(IMAGENET_MEAN, IMAGENET_STD, crop=self.side)
        return CropNormalise((0.5,), (0.5,), crop=self.side)


@dataclass(frozen=True)
class CropNormalise(Normalise):
    """Cut the middle `crop` x `crop` out of larger images, then normalise."""

    crop: int = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return a uint8 batch cut and normalised."""
        top, left = (max(side - self.crop, 0) // 2 for side in inputs.shape[-2:])
        return super().__call__(inputs[..., top : top + self.crop, left : left + self.crop])


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """A reader of image files with a class each."""

    files: Sequence[str]
    targets: Tensor
    decoding: Decoding

    def __len__(self) -> int:
        return len(self.files)

    def __call__(self, index: int) -> tuple[Tensor, Tensor]:
        """Return the decoded image and its class."""
        return decode(self.files[index], self.decoding), self.targets[index]


def decode(source: str | Path | bytes, how: Decoding, name: str | None = None) -> Tensor:
    """Return an image file, or the bytes of one, as uint8 channels x size x size; errors call it `name`."""
    image_class = pillow("images")
    label = name or ("an image" if isinstance(source, bytes) else str(source))
    try:
        with image_class.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            image.draft(None, (DRAFT * how.size, DRAFT * how.size))
            return _tensor(_fitted(_plain(image, how.channels), how))
    except FileNotFoundError:
        raise ConfigError(f"{name or f'the image {source!s}'} is missing") from None
    except MemoryError as error:
        raise ConfigError(f"{label}: there is no memory for {how.size} x {how.size} pixels; take less") from error
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise ConfigError(f"{label} cannot be read as an image: {fault(error)}; replace or remove it") from error


def fault(error: Exception) -> str:
    """Return what is wrong with an image file, in words that do not name it again."""
    if type(error).__name__ == "UnidentifiedImageError":
        return "it is empty, damaged or of an unknown format"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def pillow(what: str) -> Any:
    """Return Pillow's module `Image`; without Pillow say how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigError(f"{what} are decoded with Pillow; pip install 'flatfed[data]'") from error
    return Image


def _plain(image: Any, channels: int) -> Any:
    """Return the image as 8-bit RGB or grey; transparency is dropped, and of 16 bits the upper 8 are kept."""
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    if image.mode.startswith("I"):
        image = pillow("images").fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))
    if image.mode == "P":
        image = image.convert("RGBA")
    return image.convert("RGB" if channels == 3 else "L")


def _fitted(image: Any, how: Decoding) -> Any:
    """Return the image resized (bilinear, antialiased) to a square."""
    width, height = image.size
    side, left, top = min(width, height), (width - min(width, height)) / 2, (height - min(width, height)) / 2
    box = (left, top, left + side, top + side) if how.fit == "crop" else None
    return image.resize((how.size, how.size), pillow("images").Resampling.BILINEAR, box=box)


def _tensor(image: Any) -> Tensor:
    pixels = torch.from_numpy(np.array(image))
    return (pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1)).contiguous()
