"""The LeNet-like network of the FedSAM, FedGloSS and FedGF papers."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.core.errors import ConfigError
from flatfed.models.catalogue import model
from flatfed.models.fourier_convolution import FourierConv2d
from flatfed.models.layers import ChannelsLastMaxPool2d


@model("cnn")
def cnn(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """LeNet-like CNN of the papers: two 5x5 convolutions of 64, layers of 384 and 192.

    797,962 parameters for 3x32x32 and 10 classes, no normalisation layers, no dropout (Hsu et al. 2020,
    arXiv 2003.08082). ReLU comes after max-pool: being monotone it commutes, and has a quarter of the work.
    """
    return lenet_like("cnn", 64, classes, in_channels, image_size)


@model("cnn-fourier")
def cnn_fourier(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """The papers' CNN with its second convolution computed through frequencies: equal to `cnn` but for rounding.

    The same parameters, drawn alike, so that weights of one fit the other. Without a GPU a step of 64 images of 32x32
    takes about 60 % of the time; nothing is gained with 16 images or fewer, nor in evaluation.
    """
    return lenet_like(
        "cnn-fourier", 64, classes, in_channels, image_size, inner=FourierConv2d, pool=ChannelsLastMaxPool2d
    )


def lenet_like(
    name: str,
    width: int,
    classes: int,
    in_channels: int,
    image_size: int,
    inner: type[nn.Conv2d] = nn.Conv2d,
    pool: type[nn.MaxPool2d] = nn.MaxPool2d,
) -> nn.Module:
    """Return two convolutions of `width` channels, the second an `inner`, and layers of six and three times as many."""
    # A 5x5 convolution without padding takes four pixels, and a pool halves.
    side = ((image_size - 4) // 2 - 4) // 2
    if side < 1:
        size = f"{image_size}x{image_size}"
        raise ConfigError(f"{name} needs images of at least 16x16 pixels, not {size}; try 'cnn-small'")
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(in_channels, width, 5),
            pool1=pool(2),
            relu1=nn.ReLU(),
            conv2=inner(width, width, 5),
            pool2=pool(2),
            relu2=nn.ReLU(),
            flatten=nn.Flatten(),
            hidden1=nn.Linear(width * side * side, 6 * width),
            relu3=nn.ReLU(),
            hidden2=nn.Linear(6 * width, 3 * width),
            relu4=nn.ReLU(),
            head=nn.Linear(3 * width, classes),
        )
    )
