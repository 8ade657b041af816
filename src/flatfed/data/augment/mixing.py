"""Mixup and cutout, both on the prepared batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from flatfed.core.errors import ConfigError
from flatfed.data.augment.draws import whole, whole_numbers


@dataclass(frozen=True)
class Mixup:
    """Each example is mixed with another of its batch: `lam * a + (1 - lam) * b`, inputs and targets.

    One `lam ~ Beta(alpha, alpha)` and one permutation per batch. Targets become shares of the classes; their
    cross-entropy is `lam * CE(a) + (1 - lam) * CE(b)`.
    """

    classes: int
    alpha: float = 1.0

    def __post_init__(self) -> None:
        whole("Mixup: classes", self.classes, 1)
        if not self.alpha > 0.0:
            raise ConfigError(f"Mixup: alpha must be positive, not {self.alpha!r}")

    def __call__(self, inputs: Tensor, targets: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return the mixed batch, with targets N x classes."""
        # The factor before the permutation: with another order a seed would give other batches.
        lam = beta(self.alpha, generator)
        order = torch.randperm(len(inputs), generator=generator, device=generator.device).to(inputs.device)
        # Targets that are shares already come from an earlier mix.
        shares = targets if targets.is_floating_point() else one_hot(targets, self.classes).to(inputs.dtype)
        return torch.lerp(inputs[order], inputs, lam), torch.lerp(shares[order], shares, lam)


@dataclass(frozen=True)
class Cutout:
    """A square of zeros in each image, around a centre anywhere in it, cut off at the borders."""

    size: int

    def __post_init__(self) -> None:
        whole("Cutout: size", self.size, 1)

    def __call__(self, inputs: Tensor, targets: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return the batch with the squares in it; the targets as they are."""
        count, _, height, width = inputs.shape
        rows = self._inside(height, count, generator, inputs.device)
        columns = self._inside(width, count, generator, inputs.device)
        square = rows.unsqueeze(2) & columns.unsqueeze(1)
        # The batch is normalised, so that zero is the mean colour.
        return inputs.masked_fill(square.unsqueeze(1), 0.0), targets

    def _inside(self, length: int, count: int, generator: Generator, device: torch.device) -> Tensor:
        """Return for each image which of its rows (or columns) the square covers."""
        first = whole_numbers(length, (count, 1), generator, device) - self.size // 2
        places = torch.arange(length, device=device)
        return (places >= first) & (places < first + self.size)


def beta(alpha: float, generator: Generator) -> float:
    """Return a draw from Beta(alpha, alpha), keyed by the generator."""
    # Torch draws no Beta from a given generator: NumPy does, from a seed that this one draws.
    seed = int(torch.randint(0, 2**62, (1,), generator=generator, device=generator.device))
    return float(np.random.Generator(np.random.PCG64(seed)).beta(alpha, alpha))
