"""From bytes to what a model takes: a few tensor operations on a whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Normalise:
    """`(x / scale - mean) / std` per channel, as float32; `scale` is the value of a white pixel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 255.0

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return a uint8 batch (N x channels x height x width) normalised."""
        # Scaled constants spare a pass over the batch.
        mean = torch.tensor(self.mean, device=inputs.device).view(-1, 1, 1) * self.scale
        std = torch.tensor(self.std, device=inputs.device).view(-1, 1, 1) * self.scale
        return inputs.to(torch.float32).sub_(mean).div_(std)
