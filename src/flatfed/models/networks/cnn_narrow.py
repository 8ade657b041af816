"""Networks for many rounds without a GPU: that of the FedSAM, FedGloSS and FedGF papers, narrower; one of patches."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.models.catalogue import model
from flatfed.models.networks.cnn import lenet_like


@model("cnn-quarter")
def cnn_quarter(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """The papers' CNN at a quarter of its width: two 5x5 convolutions of 16, layers of 96 and 48.

    51,274 parameters for 3x32x32 and 10 classes. A step takes about a seventh of the time of cnn, so that runs of
    many rounds are possible without a GPU.
    """
    return lenet_like("cnn-quarter", 16, classes, in_channels, image_size)


@model("cnn-eighth")
def cnn_eighth(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """The papers' CNN at an eighth of its width: two 5x5 convolutions of 8, layers of 48 and 24.

    13,290 parameters for 3x32x32 and 10 classes. A step takes about half of the time of cnn-quarter, so that many
    methods can be compared over many rounds.
    """
    return lenet_like("cnn-eighth", 8, classes, in_channels, image_size)


@model("cnn-patches")
def cnn_patches(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """CNN of patches that do not overlap: 4x4 into 16 channels, 2x2 of these into 32, a layer of 64.

    36,346 parameters for 3x32x32 and 10 classes, no normalisation layers. Each convolution is one matrix product, so
    that a step takes about a quarter of the time of cnn-eighth.
    """
    side = image_size // 4 // 2
    if side < 1:
        raise ConfigError(f"cnn-patches needs images of at least 8x8 pixels, not {image_size}x{image_size}; try 'mlp'")
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(in_channels, 16, 4, stride=4),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(16, 32, 2, stride=2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            hidden=nn.Linear(32 * side * side, 64),
            relu3=nn.ReLU(),
            head=nn.Linear(64, classes),
        )
    )
