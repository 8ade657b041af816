"""Draws from a generator, brought to the device of the batch."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def coins(count: int, p: float, generator: Generator, device: torch.device) -> Tensor:
    """Return `count` booleans, each true with probability `p`."""
    # On the generator's device: another device would draw other numbers.
    return (torch.rand(count, generator=generator, device=generator.device) < p).to(device)


def whole_numbers(below: int, shape: tuple[int, ...], generator: Generator, device: torch.device) -> Tensor:
    """Return whole numbers from 0 to `below` - 1."""
    return torch.randint(0, below, shape, generator=generator, device=generator.device).to(device)


def between(low: float, high: float, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return real numbers between `low` and `high`, on the generator's device."""
    return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
