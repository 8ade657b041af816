"""A perceptron with hidden layers, for images and for tables of numbers."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.models.catalogue import model


@model("mlp")
def mlp(classes: int, in_features: int, hidden: int | str | list[int] = 128) -> nn.Module:
    """Perceptron with hidden layers: one of 128, or as many and as wide as `hidden` lists (64,32)."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    width = in_features
    for number, size in enumerate(_sizes(hidden), 1):
        # The first without a number: the names of tensors in weights and checkpoints.
        suffix = "" if number == 1 else str(number)
        layers[f"hidden{suffix}"] = nn.Linear(width, size)
        layers[f"relu{suffix}"] = nn.ReLU()
        width = size
    layers["head"] = nn.Linear(width, classes)
    return nn.Sequential(layers)


def _sizes(hidden: int | str | list[int]) -> list[int]:
    """Return the widths of the hidden layers, of which there is at least one."""
    entries = hidden if isinstance(hidden, list) else str(hidden).split(",")
    sizes = [str(entry).strip() for entry in entries]
    if not sizes or not all(map(_is_width, sizes)):
        raise ConfigError(
            f"mlp: {PARAMETER} must be a width or a list of widths such as 64,32, each from 1 to 999999, "
            f"not {str(hidden)[:40]!r}",
            parameter="model.hidden",
        )
    return list(map(int, sizes))


def _is_width(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6 and int(text) > 0
