"""Image files, decoded with Pillow to bytes of one size, so that a batch of them stacks."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from flatfed.core.configuration.checking import Count, Index, NonNegative
from flatfed.core.configuration.config import Config
from flatfed.core.errors import ConfigError
from flatfed.data.storage.pool import Normalise
from flatfed.machine import require_regular

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

Fit = Literal["crop", "stretch"]
Channels = Literal[1, 3]
Gigabytes = NonNegative

DRAFT = 2
"""A large JPEG is decoded at a fraction of its size, but at least at this many times the size asked for."""


class Decoding(Config):
    """How image files become tensors.

    Args:
        size: side of the decoded square.
        crop: side of what a model takes, cut from the middle (training may cut elsewhere); 0 is `size`.
        fit: `crop` brings the shorter side to `size` and cuts the middle of the longer one; `stretch` keeps the whole
            picture and changes its proportions.
        channels: 3, or 1 for grey.
        memory: gigabytes. If all images fit, they are decoded once, at the start; else each process keeps at most this
            much of them.
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
        height, width = inputs.shape[-2:]
        top = max(height - self.crop, 0) // 2
        left = max(width - self.crop, 0) // 2
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
    if isinstance(source, bytes):
        label = name or "an image"
        return _decode(io.BytesIO(source), how, label, label)
    if name is not None:
        return _decode(source, how, name, name)
    return _decode(source, how, str(source), f"the image {source!s}")


def _decode(file: Any, how: Decoding, label: str, missing: str) -> Tensor:
    image_module = pillow("images")
    with image_errors(label, missing):
        if not isinstance(file, io.BytesIO):
            require_regular(Path(file))
        with image_module.open(file) as image:
            return _square(image, how)


def size_of(file: Path) -> tuple[int, int]:
    """Return width and height of an image file, which is not decoded for it."""
    image_module = pillow("images")
    with image_errors(str(file), f"the image {file}"):
        require_regular(file)
        with image_module.open(file) as image:
            width, height = image.size
            return width, height


@contextmanager
def image_errors(label: str, missing: str) -> Iterator[None]:
    """Turn what goes wrong with an image file, called `label` (`missing` where it is not there), into an error."""
    try:
        yield
    except FileNotFoundError:
        raise ConfigError(f"{missing} is missing") from None
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from error
    except Exception as error:  # Pillow raises many kinds for damaged files
        raise ConfigError(f"{label} cannot be read as an image: {_fault(error)}; replace or remove it") from error


def _fault(error: Exception) -> str:
    """Return what is wrong with an image file, in words that do not name it again."""
    # By its name: Pillow is imported only where images are decoded.
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


def _square(image: Any, how: Decoding) -> Tensor:
    """Return the picture as bytes, channels x size x size."""
    # A JPEG can be decoded at 1/2, 1/4 or 1/8 of its size, which saves most of the time of a large one.
    image.draft(None, (DRAFT * how.size, DRAFT * how.size))
    try:
        return _tensor(_fitted(_plain(image, how.channels), how))
    except MemoryError as error:
        raise ConfigError(f"there is no memory for {how.size} x {how.size} pixels; take a smaller size") from error


def _plain(image: Any, channels: int) -> Any:
    """Return the image as 8-bit RGB or grey; transparency is dropped, and of 16 bits the upper 8 are kept."""
    mode = "RGB" if channels == 3 else "L"
    return _eight_bits(image).convert(mode)


def _eight_bits(image: Any) -> Any:
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    if image.mode.startswith("I"):
        upper = (np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)
        return pillow("images").fromarray(upper)
    if image.mode == "P":
        # By way of RGBA: Pillow warns where a palette with transparency becomes RGB or grey at once.
        return image.convert("RGBA")
    return image


def _fitted(image: Any, how: Decoding) -> Any:
    """Return the image resized (bilinear, antialiased) to a square."""
    box = _central_square(image.size) if how.fit == "crop" else None
    return image.resize((how.size, how.size), pillow("images").Resampling.BILINEAR, box=box)


def _central_square(size: tuple[int, int]) -> tuple[float, float, float, float]:
    """Return the largest square in the middle: left, upper, right, lower."""
    width, height = size
    side = min(width, height)
    left = (width - side) / 2
    top = (height - side) / 2
    return left, top, left + side, top + side


def _tensor(image: Any) -> Tensor:
    pixels = torch.from_numpy(np.array(image))
    if pixels.ndim == 2:
        return pixels.unsqueeze(0).contiguous()
    return pixels.permute(2, 0, 1).contiguous()
