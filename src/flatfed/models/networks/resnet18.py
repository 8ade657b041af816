"""ResNet-18, with BatchNorm, with GroupNorm or without normalisation."""

from __future__ import annotations

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from flatfed.models.catalogue import model
from flatfed.models.layers import BatchNorm, Norm, check_choice, convolution, group_norm, initialise, no_norm, unit

STEMS = ("imagenet", "cifar")
WIDTHS = (64, 128, 256, 512)


@model("resnet18-bn")
def resnet18_bn(classes: int, in_channels: int, stem: str = "imagenet", init: str = "kaiming") -> nn.Module:
    """ResNet-18 with BatchNorm (He et al. 2016); stem for ImageNet or for CIFAR.

    11,181,642 parameters for 3 channels and 10 classes with the ImageNet stem (7x7, stride 2, max-pool), 11,173,962
    with the CIFAR stem (3x3); 4,800 means and as many variances. `init` is torchvision's, `kaiming`, or PyTorch's,
    `default`.
    """
    return initialise("resnet18-bn", ResNet18("resnet18-bn", classes, in_channels, stem, BatchNorm), init)


@model("resnet18-gn")
def resnet18_gn(
    classes: int, in_channels: int, stem: str = "imagenet", groups: int = 2, init: str = "kaiming"
) -> nn.Module:
    """ResNet-18 with GroupNorm in the place of BatchNorm; stem for ImageNet or for CIFAR.

    11,181,642 parameters for 3 channels and 10 classes with the ImageNet stem (7x7, stride 2, max-pool), 11,173,962
    with the CIFAR stem (3x3). `init` is torchvision's, `kaiming`, or PyTorch's, `default`.
    """
    norm = group_norm("resnet18-gn", groups)
    return initialise("resnet18-gn", ResNet18("resnet18-gn", classes, in_channels, stem, norm), init)


@model("resnet18")
def resnet18(classes: int, in_channels: int, stem: str = "cifar") -> nn.Module:
    """ResNet-18 without normalisation layers, for small images.

    11,164,362 parameters for 3 channels and 10 classes. Its convolutions have no biases: FedGF's network is the usual
    one with BatchNorm taken out and nothing put in.
    """
    return ResNet18("resnet18", classes, in_channels, stem, no_norm)


class ResNet18(nn.Module):
    """Stem, four stages of two blocks, mean over the image, linear head."""

    def __init__(self, id: str, classes: int, in_channels: int, stem: str, norm: Norm) -> None:
        check_choice(id, "stem", stem, STEMS)
        super().__init__()
        self.pool: nn.Module
        if stem == "imagenet":
            self.conv1 = convolution(in_channels, WIDTHS[0], 7, stride=2)
            self.norm1 = norm(WIDTHS[0])
            self.pool = nn.MaxPool2d(3, 2, 1)
        else:
            self.conv1 = convolution(in_channels, WIDTHS[0], 3)
            self.norm1 = norm(WIDTHS[0])
            self.pool = nn.Identity()
        self.stages = _stages(norm)
        self.head = nn.Linear(WIDTHS[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return a score per class."""
        x = self.stages(self.pool(F.relu(self.norm1(self.conv1(images)))))
        scores: Tensor = self.head(x.mean(dim=(2, 3)))
        return scores


def _stages(norm: Norm) -> nn.Sequential:
    """Return the four stages; all but the first halve the image."""
    stages = OrderedDict[str, nn.Module]()
    inputs, stride = WIDTHS[0], 1
    for number, outputs in enumerate(WIDTHS, 1):
        first = BasicBlock(inputs, outputs, stride, norm)
        stages[f"stage{number}"] = nn.Sequential(first, BasicBlock(outputs, outputs, 1, norm))
        inputs, stride = outputs, 2
    return nn.Sequential(stages)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside the identity, or beside a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm1 = norm(outputs)
        self.conv2 = convolution(outputs, outputs)
        self.norm2 = norm(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else unit(inputs, outputs, norm, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's features."""
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))
