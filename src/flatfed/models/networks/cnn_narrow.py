"""The network of the FedSAM, FedGloSS and FedGF papers, narrower: for runs of many rounds without a GPU."""

from __future__ import annotations

from torch import nn

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
