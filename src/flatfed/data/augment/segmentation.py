"""Scaling and cropping of an image together with its mask."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn.functional import interpolate

from flatfed.data.augment.draws import between, interval, masks, whole


@dataclass(frozen=True)
class ScaleCrop:
    """Each image and its mask are scaled by one factor and cropped at one place to `size` (height, width).

    The image is scaled with antialiased bilinear interpolation, the mask by its nearest pixel. Where the scaled image
    is smaller than the crop it lies at a random place in it, surrounded by zeros and, in the mask, by `ignore`.
    """

    size: tuple[int, int]
    scale: tuple[float, float] = (0.5, 1.5)
    ignore: int = 255

    def __post_init__(self) -> None:
        interval("ScaleCrop: scale", self.scale)
        for name, value in zip(("height", "width"), self.size, strict=True):
            whole(f"ScaleCrop: {name}", value, 1)

    def __call__(self, inputs: Tensor, targets: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return images N x channels x `size` and masks N x `size`."""
        masks("ScaleCrop", targets)
        images = inputs.new_zeros(*inputs.shape[:2], *self.size)
        cut = targets.new_full((len(targets), *self.size), self.ignore)
        factors = between(*self.scale, (len(inputs),), generator).tolist()
        places = between(0.0, 1.0, (len(inputs), 2), generator).tolist()
        for number, (factor, place) in enumerate(zip(factors, places, strict=True)):
            # A small factor must not leave an image without pixels.
            shape = [max(1, int(length * factor)) for length in inputs.shape[2:]]
            to_rows, rows = _overlap(shape[0], self.size[0], place[0])
            to_columns, columns = _overlap(shape[1], self.size[1], place[1])
            image = interpolate(inputs[number : number + 1], shape, mode="bilinear", antialias=True)[0]
            images[number, :, to_rows, to_columns] = image[:, rows, columns]
            cut[number, to_rows, to_columns] = _nearest(targets[number], shape)[rows, columns]
        return images, cut


def _overlap(length: int, crop: int, place: float) -> tuple[slice, slice]:
    """Return where a scaled length lands in the crop, and which part of it: `place` (0 to 1) chooses the offset."""
    spare = abs(length - crop)
    offset = int(place * (spare + 1))
    both = min(length, crop)
    inside, whole = slice(offset, offset + both), slice(0, both)
    # The longer of the two is cut, or filled, at the offset; the shorter one is used as a whole.
    if length >= crop:
        return whole, inside
    return inside, whole


def _nearest(mask: Tensor, shape: list[int]) -> Tensor:
    """Return the mask at another size, each pixel that of the old one under its centre."""
    rows = _nearest_places(shape[0], mask.shape[0], mask.device)
    columns = _nearest_places(shape[1], mask.shape[1], mask.device)
    return mask[rows.unsqueeze(1), columns]


def _nearest_places(new: int, old: int, device: torch.device) -> Tensor:
    centres = (torch.arange(new, device=device) + 0.5) * (old / new)
    # Rounding may carry the last centre onto the border.
    return centres.long().clamp_(max=old - 1)
