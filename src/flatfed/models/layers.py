"""Pieces that several networks are made of, and checks of the options that they share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.core.errors import ConfigError, nearest

Norm = Callable[[int], nn.Module]
"""Makes the normalisation of a number of channels."""

INITS = ("default", "kaiming")


def convolution(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Return a convolution without bias, padded so that stride 1 keeps the size."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


def unit(
    inputs: int,
    outputs: int,
    norm: Norm,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    activation: nn.Module | None = None,
) -> nn.Sequential:
    """Return a convolution with its normalisation and, where one is given, an activation."""
    layers = OrderedDict[str, nn.Module](conv=convolution(inputs, outputs, kernel, stride, groups), norm=norm(outputs))
    if activation is not None:
        layers["activation"] = activation
    return nn.Sequential(layers)


def no_norm(channels: int) -> nn.Module:
    """Stand in for the normalisation of a network that has none."""
    return nn.Identity()


class ChannelsLastMaxPool2d(nn.MaxPool2d):
    """`nn.MaxPool2d` on channels-last pixels: the same values and gradients, and, copy included, sooner.

    PyTorch pools many channels at once only where those of a pixel are neighbours in memory.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the largest value of each window, channels-last."""
        # Not `contiguous(memory_format=...)`: `vmap` does not take it.
        channels_last = input.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        pooled: Tensor = super().forward(channels_last)
        return pooled


class BatchNorm(nn.BatchNorm2d):
    """BatchNorm that takes its running statistics where a batch has one value per channel, hence no variance.

    That is so after pooling the only image of a batch, as in the last batch of a client.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalised features."""
        # In training torch refuses such a batch.
        if self.training and _has_one_value_per_channel(input):
            return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        return super().forward(input)


def _has_one_value_per_channel(input: Tensor) -> bool:
    return input.numel() == input.shape[1]


def group_norm(id: str, groups: Any) -> Norm:
    """Return a maker of GroupNorm with `groups` groups; they must divide the channels."""
    if not _is_number(groups, int) or groups < 1:
        raise ConfigError(f"{id}: groups must be a whole number of at least 1, not {groups!r}")

    def make(channels: int) -> nn.Module:
        if channels % groups:
            raise ConfigError(f"{id}: groups must divide the {channels} channels of a layer; {groups} does not")
        return nn.GroupNorm(groups, channels)

    return make


def check_choice(id: str, name: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a word that is not one of those known."""
    if value not in known:
        raise ConfigError(f"{id}: {nearest(str(value), known, name)}")


def check_dropout(id: str, value: Any) -> float:
    """Return the share of units that dropout silences."""
    if not _is_number(value, (int, float)) or not 0 <= value < 1:
        raise ConfigError(f"{id}: dropout must be at least 0 and less than 1, not {value!r}")
    return float(value)


def _is_number(value: Any, kinds: type | tuple[type, ...]) -> bool:
    # True and False are whole numbers to Python, and mistakes here.
    return isinstance(value, kinds) and not isinstance(value, bool)


def initialise(id: str, network: nn.Module, init: Any) -> nn.Module:
    """Return the network, initialised by PyTorch (`default`) or with convolutions after He et al. (`kaiming`).

    The latter draws them from a normal distribution of variance 2 / (outputs x kernel area / groups), as torchvision's
    networks do.
    """
    check_choice(id, "init", init, INITS)
    if init == "kaiming":
        _draw_convolutions(network)
    return network


def _draw_convolutions(network: nn.Module) -> None:
    # In the order of the modules: each draw moves the generator on.
    for module in network.modules():
        _draw_convolution(module)


def _draw_convolution(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
