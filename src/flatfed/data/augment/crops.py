"""Crops: zero-padded (per image or per batch), the one of the FedDyn lineage, and resized ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import interpolate, pad

from flatfed.data.augment.draws import between, coins, interval, no_masks, probability, whole, whole_numbers
from flatfed.data.augment.flips import flipped

TRIES = 10
"""Boxes drawn for each image before the central one is taken."""


@dataclass(frozen=True)
class Crop:
    """Each image is padded with zeros and cropped to its size at a place of its own."""

    padding: int = 4

    def __post_init__(self) -> None:
        whole("Crop: padding", self.padding, 0)

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return the batch with every image cropped, in its own type."""
        # All tops before all lefts: with another order a seed would give other crops.
        tops, lefts = whole_numbers(2 * self.padding + 1, (2, len(inputs)), generator, inputs.device)
        return cropped(inputs, self.padding, tops, lefts)


@dataclass(frozen=True)
class BatchCrop:
    """As `Crop`, but one place for the whole batch, as in the code of FedGloSS."""

    padding: int = 4

    def __post_init__(self) -> None:
        whole("BatchCrop: padding", self.padding, 0)

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return the batch with all images cropped alike, in its own type."""
        top, left = whole_numbers(2 * self.padding + 1, (2,), generator, torch.device("cpu")).tolist()
        height, width = inputs.shape[2:]
        return pad(inputs, [self.padding] * 4)[:, :, top : top + height, left : left + width]


@dataclass(frozen=True)
class LineageCrop:
    """Each image is flipped with probability `flip`, then cropped with probability `crop`, after normalisation.

    So the padding is the mean colour, not black, and half of the images are not moved: the augmentation of FedWMSAM and
    of the code that it descends from.
    """

    padding: int = 4
    flip: float = 0.5
    crop: float = 0.5

    def __post_init__(self) -> None:
        whole("LineageCrop: padding", self.padding, 0)
        probability("LineageCrop: flip", self.flip)
        probability("LineageCrop: crop", self.crop)

    def __call__(self, inputs: Tensor, targets: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return the prepared batch with the images flipped and cropped; the targets as they are."""
        no_masks("LineageCrop", targets)
        count, device = len(inputs), inputs.device
        turned = flipped(inputs, coins(count, self.flip, generator, device))
        moved = coins(count, self.crop, generator, device)
        # Drawn for every image, moved or not, so that the number of draws is always the same.
        places = whole_numbers(2 * self.padding + 1, (2, count), generator, device)
        tops, lefts = torch.where(moved, places, self.padding)
        return cropped(turned, self.padding, tops, lefts), targets


@dataclass(frozen=True)
class RandomResizedCrop:
    """A box of random area and shape per image, resized to `size` x `size` with antialiased bilinear interpolation.

    `scale` is the box's share of the image's area, `ratio` its width by its height (drawn on a logarithmic scale).
    Where none of ten boxes fits, the largest central one of an admitted shape is taken.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        whole("RandomResizedCrop: size", self.size, 1)
        interval("RandomResizedCrop: scale", self.scale)
        interval("RandomResizedCrop: ratio", self.ratio)

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return the batch at its new size; bytes stay bytes, rounded to the nearest."""
        images = []
        for image, (top, left, height, width) in zip(inputs, self.boxes(inputs, generator), strict=True):
            box = image[None, :, top : top + height, left : left + width]
            images.append(self._resized(box))
        return torch.cat(images)

    def boxes(self, inputs: Tensor, generator: Generator) -> list[tuple[int, int, int, int]]:
        """Return for each image of the batch a box: top, left, height, width."""
        height, width = inputs.shape[2:]
        shape = (len(inputs), TRIES)
        # All boxes are drawn, used or not, so that later draws do not depend on which of them fit.
        area = height * width * between(*self.scale, shape, generator)
        ratio = between(math.log(self.ratio[0]), math.log(self.ratio[1]), shape, generator).exp()
        heights, widths = (area / ratio).sqrt().round().long(), (area * ratio).sqrt().round().long()
        fits = (heights >= 1) & (heights <= height) & (widths >= 1) & (widths <= width)
        places = between(0.0, 1.0, (len(inputs), 2), generator).tolist()
        # The first box that fits; where none does, `argmax` says 0, which does not fit either.
        first = fits.int().argmax(dim=1).tolist()
        boxes = []
        for number, chosen in enumerate(first):
            if not fits[number, chosen]:
                boxes.append(self._central(height, width))
                continue
            h, w = int(heights[number, chosen]), int(widths[number, chosen])
            down, across = places[number]
            boxes.append((int(down * (height - h + 1)), int(across * (width - w + 1)), h, w))
        return boxes

    def _central(self, height: int, width: int) -> tuple[int, int, int, int]:
        ratio = min(max(width / height, self.ratio[0]), self.ratio[1])
        h, w = min(height, round(width / ratio)), min(width, round(height * ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def _resized(self, box: Tensor) -> Tensor:
        size = (self.size, self.size)
        if box.is_floating_point():
            return interpolate(box, size, mode="bilinear", antialias=True)
        values = interpolate(box.float(), size, mode="bilinear", antialias=True)
        return values.round_().clamp_(0, 255).to(box.dtype)


def cropped(inputs: Tensor, padding: int, tops: Tensor, lefts: Tensor) -> Tensor:
    """Return each image, padded with zeros, from its own top and left on, at the size that it had."""
    height, width = inputs.shape[2:]
    # Views of all windows; only the chosen ones are copied.
    windows = pad(inputs, [padding] * 4).unfold(2, height, 1).unfold(3, width, 1)
    rows = torch.arange(len(inputs), device=inputs.device)
    if inputs.device.type != "cpu" or inputs.dtype == torch.bfloat16 or inputs.requires_grad:
        # What NumPy does not know.
        return windows[rows, :, tops, lefts]
    # NumPy copies whole lines of a window, PyTorch goes pixel by pixel and takes four times as long.
    chosen = windows.numpy()[rows.numpy(), :, tops.numpy(), lefts.numpy()]
    return torch.from_numpy(np.ascontiguousarray(chosen))
