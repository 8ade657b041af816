"""Horizontal flips: per image, per batch, and of an image together with its mask."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from flatfed.data.augment.draws import coins, masks, probability


@dataclass(frozen=True)
class Flip:
    """Each image is flipped left to right with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        probability("Flip: p", self.p)

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return the batch with some images flipped."""
        return flipped(inputs, coins(len(inputs), self.p, generator, inputs.device))


@dataclass(frozen=True)
class BatchFlip:
    """The whole batch is flipped with probability `p`, or not at all: one coin, as in the code of FedGloSS."""

    p: float = 0.5

    def __post_init__(self) -> None:
        probability("BatchFlip: p", self.p)

    def __call__(self, inputs: Tensor, generator: Generator) -> Tensor:
        """Return the batch, flipped or as it is."""
        heads = bool(coins(1, self.p, generator, torch.device("cpu")))
        return inputs.flip(-1) if heads else inputs


@dataclass(frozen=True)
class HorizontalFlipPair:
    """Each image is flipped with its mask, with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        probability("HorizontalFlipPair: p", self.p)

    def __call__(self, inputs: Tensor, targets: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return images and masks (N x height x width), some of the pairs flipped."""
        masks("HorizontalFlipPair", targets)
        chosen = coins(len(inputs), self.p, generator, inputs.device)
        return flipped(inputs, chosen), flipped(targets, chosen.to(targets.device))


def flipped(batch: Tensor, chosen: Tensor) -> Tensor:
    """Return the batch with the chosen images flipped left to right."""
    if batch.device.type != "cpu":
        return torch.where(chosen.view(-1, *[1] * (batch.ndim - 1)), batch.flip(-1), batch)
    # Only the chosen ones are touched: a choice pixel by pixel takes five times as long on a CPU. On another device it
    # would have to be waited for, to count them.
    rows = chosen.nonzero().flatten()
    return batch.index_copy(0, rows, batch.index_select(0, rows).flip(-1))
