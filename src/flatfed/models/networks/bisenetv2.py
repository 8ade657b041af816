"""BiSeNetV2, a fast network for semantic segmentation."""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.models.catalogue import model
from flatfed.models.layers import BatchNorm, check_dropout, convolution, initialise, unit

EXPANSION = 6
DETAIL, WIDTHS = 128, (16, 32, 64, 128)
"""Channels of the detail branch at its end, and of the semantic branch at 1/4, 1/8, 1/16 and 1/32 of the image."""

HEAD, AUXILIARY = 1024, 128
"""Hidden channels of the head, and of the auxiliary heads."""


@model("bisenetv2", head=("head.scores", *(f"auxiliary.{number}.scores" for number in range(len(WIDTHS)))))
def bisenetv2(classes: int, in_channels: int, dropout: float = 0.0, init: str = "default") -> nn.Module:
    """BiSeNetV2 for segmentation (Yu et al. 2021): detail and semantic branch, four auxiliary heads.

    3,645,935 parameters for 3 channels and 19 classes. In training it returns a tuple, the scores of the head and of
    the four auxiliary heads; otherwise the head's alone. Scores are N x classes x H x W, at the size of the image.
    """
    network = BiSeNetV2(classes, in_channels, check_dropout("bisenetv2", dropout))
    return initialise("bisenetv2", network, init)


class BiSeNetV2(nn.Module):
    """A wide, shallow branch for detail and a narrow, deep one for meaning, brought together."""

    def __init__(self, classes: int, in_channels: int, dropout: float) -> None:
        super().__init__()
        self.detail = _detail_branch(in_channels)
        self.stem = Stem(in_channels, WIDTHS[0])
        # The last stage is deeper: four blocks instead of two.
        self.semantic = nn.ModuleList(
            _gather_and_expand(inputs, outputs, count)
            for (inputs, outputs), count in zip(itertools.pairwise(WIDTHS), (2, 2, 4), strict=True)
        )
        self.context = ContextEmbedding(WIDTHS[-1])
        self.aggregation = GuidedAggregation(DETAIL)
        self.head = Head(DETAIL, HEAD, classes, dropout)
        self.auxiliary = nn.ModuleList(Head(width, AUXILIARY, classes, dropout) for width in WIDTHS)

    def forward(self, images: Tensor) -> Any:
        """Return the scores of every pixel; in training a tuple, those of the auxiliary heads after them."""
        size = images.shape[2:]
        stages = [self.stem(images)]
        for stage in self.semantic:
            stages.append(stage(stages[-1]))
        main = self.head(self.aggregation(self.detail(images), self.context(stages[-1])), size)
        if not self.training:
            return main
        return main, *(head(x, size) for head, x in zip(self.auxiliary, stages, strict=True))


def _active(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return convolution, BatchNorm, ReLU."""
    return unit(inputs, outputs, BatchNorm, kernel, stride, groups, nn.ReLU())


def _plain(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Return convolution, BatchNorm."""
    return unit(inputs, outputs, BatchNorm, kernel, stride, groups)


def _detail_branch(in_channels: int) -> nn.Sequential:
    """Return the three stages that keep detail: 1/2, 1/4 and 1/8 of the image."""
    layers, inputs = list[nn.Module](), in_channels
    for outputs, count in ((64, 2), (64, 3), (DETAIL, 3)):
        layers.append(_active(inputs, outputs, stride=2))
        layers += [_active(outputs, outputs) for _ in range(count - 1)]
        inputs = outputs
    return nn.Sequential(*layers)


class Stem(nn.Module):
    """Start of the semantic branch: convolution and max-pool side by side, down to 1/4 of the image."""

    def __init__(self, in_channels: int, width: int) -> None:
        super().__init__()
        self.start = _active(in_channels, width, stride=2)
        self.convolved = nn.Sequential(_active(width, width // 2, 1), _active(width // 2, width, stride=2))
        self.pooled = nn.MaxPool2d(3, 2, 1)
        self.fuse = _active(2 * width, width)

    def forward(self, images: Tensor) -> Tensor:
        """Return the features at 1/4."""
        x = self.start(images)
        fused: Tensor = self.fuse(torch.cat([self.convolved(x), self.pooled(x)], dim=1))
        return fused


def _gather_and_expand(inputs: int, outputs: int, count: int) -> nn.Sequential:
    """Return a stage of the semantic branch: the first block halves the image."""
    return nn.Sequential(GatherExpand(inputs, outputs, 2), *(GatherExpand(outputs, outputs) for _ in range(count - 1)))


class GatherExpand(nn.Module):
    """Gather by 3x3, expand each channel to six, project; with stride 2, a second depthwise layer and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        hidden = EXPANSION * inputs
        self.gather = _active(inputs, inputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride == 1:
            self.expand: nn.Module = _active(inputs, hidden, groups=inputs)
        else:
            down = _plain(inputs, hidden, stride=stride, groups=inputs)
            self.expand = nn.Sequential(down, _active(hidden, hidden, groups=hidden))
            self.shortcut = nn.Sequential(
                _plain(inputs, inputs, stride=stride, groups=inputs), _plain(inputs, outputs, 1)
            )
        self.project = _plain(hidden, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's features."""
        return F.relu(self.project(self.expand(self.gather(x))) + self.shortcut(x))


class ContextEmbedding(nn.Module):
    """Add the mean over the whole image, normalised and transformed, to every pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = BatchNorm(width)
        self.embed = _active(width, width, 1)
        self.mix = _active(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features with their context."""
        mixed: Tensor = self.mix(x + self.embed(self.norm(x.mean(dim=(2, 3), keepdim=True))))
        return mixed


class GuidedAggregation(nn.Module):
    """Let each branch weigh the other, at the detail branch's size and at the semantic one's, and add both."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.detail_kept = _separable(width)
        self.detail_lowered = nn.Sequential(_plain(width, width, stride=2), nn.AvgPool2d(3, 2, 1))
        self.semantic_kept = _separable(width)
        self.semantic_raised = _plain(width, width)
        self.fuse = _active(width, width)

    def forward(self, detail: Tensor, semantic: Tensor) -> Tensor:
        """Return the features of both at 1/8 of the image."""
        large = detail.shape[2:]
        fine = self.detail_kept(detail) * _resized(self.semantic_raised(semantic), large).sigmoid()
        coarse = self.detail_lowered(detail) * self.semantic_kept(semantic).sigmoid()
        fused: Tensor = self.fuse(fine + _resized(coarse, large))
        return fused


def _separable(width: int) -> nn.Sequential:
    """Return a depthwise 3x3 convolution with BatchNorm, then a bare 1x1 convolution."""
    return nn.Sequential(_plain(width, width, groups=width), convolution(width, width, 1))


class Head(nn.Module):
    """A 3x3 convolution, then 1x1 to the classes, scaled up to the image."""

    def __init__(self, inputs: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.hidden = _active(inputs, hidden)
        self.dropout = nn.Dropout(dropout)
        self.scores = nn.Conv2d(hidden, classes, 1)

    def forward(self, x: Tensor, size: torch.Size) -> Tensor:
        """Return scores at `size`."""
        return _resized(self.scores(self.dropout(self.hidden(x))), size)


def _resized(x: Tensor, size: torch.Size) -> Tensor:
    """Scale an image bilinearly."""
    return F.interpolate(x, size=list(size), mode="bilinear", align_corners=False)
