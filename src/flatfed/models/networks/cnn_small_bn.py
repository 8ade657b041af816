"""The network for small images, with BatchNorm."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.models.catalogue import model
from flatfed.models.networks.cnn_small import cnn_small


@model("cnn-small-bn")
def cnn_small_bn(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """CNN for small images as cnn-small, BatchNorm after each convolution.

    13,802 parameters for 1x8x8 and 10 classes.
    """
    # BatchNorm draws nothing, so that a seed gives both networks the same weights.
    plain = cnn_small(classes, in_channels, image_size)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, layer in plain.named_children():
        layers[name] = layer
        if isinstance(layer, nn.Conv2d):
            layers[name.replace("conv", "norm")] = nn.BatchNorm2d(layer.out_channels)
    return nn.Sequential(layers)
