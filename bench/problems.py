"""The problems: random data of the shapes that are compared, the same for every case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flatfed.models import build

LR, WEIGHT_DECAY = 0.01, 4e-4


@dataclass(frozen=True)
class Problem:
    """Equal clients with random examples."""

    name: str
    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    clients: int
    samples: int
    per_round: int
    batch_size: int

    def data(self) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(self.clients * self.samples, *self.shape, generator=generator)
        return inputs, torch.randint(0, 10, (self.clients * self.samples,), generator=generator)

    def fresh_model(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.model()

    @property
    def steps(self) -> int:
        """Local steps of a client in a round."""
        return -(-self.samples // self.batch_size)


CONV = Problem("conv", lambda: build("cnn", 10, 3, 32, 0), (3, 32, 32), 100, 500, 5, 64)
DIGITS = Problem("digits", lambda: build("cnn-small", 10, 1, 8, 0), (1, 8, 8), 12, 120, 5, 32)
TINY = Problem("tiny", lambda: nn.Linear(3072, 10), (3072,), 1000, 50, 50, 10)
