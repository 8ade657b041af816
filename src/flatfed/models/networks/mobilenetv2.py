"""MobileNetV2 with GroupNorm."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from flatfed.models.catalogue import model
from flatfed.models.layers import Norm, check_dropout, group_norm, initialise, unit

STEM, LAST = 32, 1280
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks and stride of the first block, as in table 2 of the paper."""


@model("mobilenetv2-gn")
def mobilenetv2_gn(
    classes: int, in_channels: int, groups: int = 8, dropout: float = 0.0, init: str = "default"
) -> nn.Module:
    """MobileNetV2 of width 1 with GroupNorm of 8 groups (Sandler et al. 2018).

    3,504,872 parameters for 3 channels and 1,000 classes, 4,821,740 for the 2,028 of Landmarks-User-160k: the head is
    one layer from 1,280 features to the classes. The image is made smaller by 32.
    """
    silenced = check_dropout("mobilenetv2-gn", dropout)
    network = MobileNetV2(classes, in_channels, group_norm("mobilenetv2-gn", groups), silenced)
    return initialise("mobilenetv2-gn", network, init)


class MobileNetV2(nn.Module):
    """Stem, inverted residuals, a last 1x1 convolution, mean over the image, linear head."""

    def __init__(self, classes: int, in_channels: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.stem = unit(in_channels, STEM, norm, 3, 2, activation=nn.ReLU6())
        blocks, inputs = list[nn.Module](), STEM
        for expansion, outputs, count, stride in STAGES:
            blocks.append(InvertedResidual(inputs, outputs, stride, expansion, norm))
            blocks += [InvertedResidual(outputs, outputs, 1, expansion, norm) for _ in range(count - 1)]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.last = unit(inputs, LAST, norm, 1, activation=nn.ReLU6())
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(LAST, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return a score per class."""
        x = self.last(self.blocks(self.stem(images)))
        scores: Tensor = self.head(self.dropout(x.mean(dim=(2, 3))))
        return scores


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter each channel by 3x3, project by 1x1 without activation; added where the shape stays."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int, norm: Norm) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers = OrderedDict[str, nn.Module]()
        # With the factor 1 there is nothing to expand, and the paper has no such layer.
        if expansion > 1:
            layers["expand"] = unit(inputs, hidden, norm, 1, activation=nn.ReLU6())
        layers["depthwise"] = unit(hidden, hidden, norm, 3, stride, groups=hidden, activation=nn.ReLU6())
        layers["project"] = unit(hidden, outputs, norm, 1)
        self.layers = nn.Sequential(layers)
        self.added = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's features."""
        y: Tensor = self.layers(x)
        return x + y if self.added else y
