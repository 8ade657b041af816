"""The two networks of the peers' benchmarks, in plain PyTorch."""

from __future__ import annotations

from torch import nn


def cnn() -> nn.Module:
    """LeNet-like network for 3x32x32 and 10 classes, 797,962 parameters, in its ordinary form: convolve, ReLU, pool."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 5 * 5, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, 10),
    )


def linear() -> nn.Module:
    """Softmax regression of 3,072 inputs and 10 classes, 30,730 parameters."""
    return nn.Linear(3072, 10)
