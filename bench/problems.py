"""The problems: random data of the shapes that are compared, the same for every case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.models import build
from flatfed.models.networks.textcnn import textcnn

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

    loss = staticmethod(F.cross_entropy)

    @property
    def steps(self) -> int:
        """Local steps of a client in a round."""
        return -(-self.samples // self.batch_size)


class Texts(Problem):
    """Equal clients with random texts over 30,000 words."""

    def data(self) -> tuple[Tensor, Tensor]:
        inputs, targets = super().data()
        generator = torch.Generator().manual_seed(1)
        return torch.randint(0, WORDS, inputs.shape, generator=generator), targets


class Scenes(Problem):
    """Equal clients with random images and a class for each pixel; the loss is that of all heads."""

    def data(self) -> tuple[Tensor, Tensor]:
        inputs, _ = super().data()
        generator = torch.Generator().manual_seed(1)
        return inputs, torch.randint(0, 10, (len(inputs), *inputs.shape[2:]), generator=generator)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        heads = outputs if isinstance(outputs, tuple | list) else [outputs]
        losses = [F.cross_entropy(head, targets) for head in heads]
        return torch.stack(losses).sum()


WORDS, LENGTH = 30_000, 100
CONV = Problem("conv", lambda: build("cnn", 10, 3, 32, 0), (3, 32, 32), 100, 500, 5, 64)
DIGITS = Problem("digits", lambda: build("cnn-small", 10, 1, 8, 0), (1, 8, 8), 12, 120, 5, 32)
LENET = Problem("lenet", lambda: build("lenet", 10, 3, 32, 0), (3, 32, 32), 100, 500, 10, 50)
TINY = Problem("tiny", lambda: nn.Linear(3072, 10), (3072,), 1000, 50, 50, 10)

CIFAR = (3, 32, 32)
NETWORKS: list[Problem] = [
    Problem("resnet18-gn", lambda: build("resnet18-gn", 10, 3, 32, 0), CIFAR, 4, 128, 2, 16),
    Problem("wrn-28-4", lambda: build("wrn-28-4", 10, 3, 32, 0), CIFAR, 4, 16, 2, 8),
    Problem("mobilenetv2-gn", lambda: build("mobilenetv2-gn", 10, 3, 32, 0), CIFAR, 4, 64, 2, 32),
    Texts("textcnn", lambda: textcnn(10, WORDS, LENGTH), (LENGTH,), 4, 256, 2, 64),
    Scenes("bisenetv2", lambda: build("bisenetv2", 10, 3, 64, 0), (3, 64, 64), 4, 16, 2, 8),
]
