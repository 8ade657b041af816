"""A convolutional network for small images."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.models.catalogue import model


@model("cnn-small")
def cnn_small(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """CNN for small images: 3x3 convolutions of 16 and 32, a layer of 64.

    13,706 parameters for 1x8x8 and 10 classes. ReLU comes after max-pool, with which it commutes.
    """
    # Padded convolutions keep the size, and two pools quarter it.
    side = image_size // 4
    if side < 1:
        raise ConfigError(f"cnn-small needs images of at least 4x4 pixels, not {image_size}x{image_size}; try 'mlp'")
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(in_channels, 16, 3, padding=1),
            pool1=nn.MaxPool2d(2),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(16, 32, 3, padding=1),
            pool2=nn.MaxPool2d(2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            hidden=nn.Linear(32 * side * side, 64),
            relu3=nn.ReLU(),
            head=nn.Linear(64, classes),
        )
    )
