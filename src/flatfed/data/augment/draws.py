"""Draws from a generator, brought to the device of the batch, and what parameters of augmentations must be."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from flatfed.core.errors import ConfigError


def probability(name: str, value: float) -> None:
    """Refuse what is no probability."""
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{name} must lie between 0 and 1, not {value!r}")


def whole(name: str, value: int, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, not {value!r}")


def interval(name: str, value: tuple[float, float]) -> None:
    """Refuse what is not a pair of positive numbers in order."""
    if len(value) != 2 or not 0.0 < value[0] <= value[1]:
        raise ConfigError(f"{name} must be two positive numbers, the smaller first, not {value!r}")


def no_masks(name: str, targets: Tensor) -> None:
    """Refuse masks: the image would be moved, and its mask would stay."""
    if targets.ndim == 3:
        raise ConfigError(
            f"{name} moves an image and not its mask; use those that move both, scale-crop (ScaleCrop) and flip-pair "
            "(HorizontalFlipPair)"
        )


def masks(name: str, targets: Tensor) -> None:
    """Refuse targets that are no masks: another one of the batch would take the place of a class."""
    if targets.ndim != 3:
        raise ConfigError(f"{name} is for images with masks, N x height x width, not for a class of each image")


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
