"""The network that FL-Simulator calls LeNet."""

from __future__ import annotations

from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.models.catalogue import model
from flatfed.models.networks.cnn import cnn


@model("lenet")
def lenet(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """LeNet as FL-Simulator has it: the same network as cnn, under the name it has there.

    797,962 parameters for 3x32x32 and 10 classes. It is not LeNet-5 (LeCun et al. 1998), which has 6 and 16 channels.
    """
    if image_size < 16:
        raise ConfigError(f"lenet needs images of at least 16x16 pixels, not {image_size}x{image_size}")
    return cnn(classes, in_channels, image_size)
