"""A perceptron with one hidden layer."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.models.catalogue import model


@model("mlp")
def mlp(classes: int, in_channels: int, image_size: int) -> nn.Module:
    """Perceptron with one hidden layer of 128."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            hidden=nn.Linear(in_channels * image_size * image_size, 128),
            relu=nn.ReLU(),
            head=nn.Linear(128, classes),
        )
    )
