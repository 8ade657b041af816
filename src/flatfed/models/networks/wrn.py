"""Wide residual network of depth 28 and width 4."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.models.catalogue import model
from flatfed.models.layers import Norm, check_choice, convolution, group_norm, initialise

BLOCKS = 4
"""Blocks per stage: (28 - 4) / 6."""

WIDTHS = (16, 64, 128, 256)
"""Channels of the stem, and of the stages: 4 times 16, 32 and 64."""


@model("wrn-28-4")
def wrn_28_4(classes: int, in_channels: int, norm: str = "group", groups: int = 2, init: str = "default") -> nn.Module:
    """Wide ResNet of depth 28 and width 4 (Zagoruyko and Komodakis 2016) for small images.

    5,849,050 parameters for 3 channels and 10 classes, 5,872,180 for 100, with either norm: `group`, of `groups`
    groups, or `batch`, the authors' own. No dropout.
    """
    check_choice("wrn-28-4", "norm", norm, ("group", "batch"))
    make = nn.BatchNorm2d if norm == "batch" else group_norm("wrn-28-4", groups)
    return initialise("wrn-28-4", WideResNet(classes, in_channels, make), init)


class WideResNet(nn.Module):
    """A 3x3 convolution, three stages, a last normalisation, mean over the image, linear head."""

    def __init__(self, classes: int, in_channels: int, norm: Norm) -> None:
        super().__init__()
        self.conv = convolution(in_channels, WIDTHS[0])
        stem, first, second, third = WIDTHS
        # The first stage keeps the size of the image, the others halve it.
        blocks = [*_stage(stem, first, 1, norm), *_stage(first, second, 2, norm), *_stage(second, third, 2, norm)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = norm(third)
        self.head = nn.Linear(third, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return a score per class."""
        x = F.relu(self.norm(self.blocks(self.conv(images))))
        scores: Tensor = self.head(x.mean(dim=(2, 3)))
        return scores


def _stage(inputs: int, outputs: int, stride: int, norm: Norm) -> list[nn.Module]:
    """Return the blocks of a stage; the first changes the shape."""
    first = WideBlock(inputs, outputs, stride, norm)
    return [first, *(WideBlock(outputs, outputs, 1, norm) for _ in range(BLOCKS - 1))]


class WideBlock(nn.Module):
    """Two convolutions, each after normalisation and ReLU; where the shape changes the shortcut starts after them."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.norm1 = norm(inputs)
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm2 = norm(outputs)
        self.conv2 = convolution(outputs, outputs)
        self.shortcut = None if inputs == outputs else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's features."""
        active = F.relu(self.norm1(x))
        y: Tensor = self.conv2(F.relu(self.norm2(self.conv1(active))))
        kept = x if self.shortcut is None else self.shortcut(active)
        return y + kept
