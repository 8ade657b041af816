"""From bytes to what a model takes, and augmentation: a few tensor operations on a whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Normalise:
    """`(x / scale - mean) / std` per channel, as float32; `scale` is the value of a white pixel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 255.0

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return a uint8 batch (N x channels x height x width) normalised."""
        mean = torch.tensor(self.mean, device=inputs.device).view(-1, 1, 1) * self.scale
        std = torch.tensor(self.std, device=inputs.device).view(-1, 1, 1) * self.scale
        return inputs.to(torch.float32).sub_(mean).div_(std)


@dataclass(frozen=True)
class RandomShift:
    """Each image moves by -`pixels`..`pixels` down and across, background (0) coming in at the border.

    The same as zero-padding by `pixels` and cropping at random, per image (FedSAM's augmentation has 4).
    """

    pixels: int

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return a batch (N x channels x height x width) with every image shifted, in its own type."""
        count, _, height, width = inputs.shape
        offsets = torch.randint(0, 2 * self.pixels + 1, (2, count, 1), generator=generator, device=generator.device).to(
            inputs.device
        )
        rows = torch.arange(height, device=inputs.device) + offsets[0]
        columns = torch.arange(width, device=inputs.device) + offsets[1]
        images = torch.arange(count, device=inputs.device).view(-1, 1, 1)
        padded = pad(inputs, [self.pixels] * 4).permute(0, 2, 3, 1)
        return padded[images, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2)
