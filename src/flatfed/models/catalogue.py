"""The models by id. A new one is one module in `flatfed.models` with a function under `@model(id)`."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable

import torch
from torch import nn

from flatfed.core.errors import ConfigError, nearest
from flatfed.core.randomness import key, preserved_global_state

Builder = Callable[[int, int, int], nn.Module]

_builders: dict[str, Builder] = {}


def model(id: str) -> Callable[[Builder], Builder]:
    """Enter a function `(classes, in_channels, image_size) -> module` under `id`.

    The first line of its docstring describes the model; the module must be picklable.
    """

    def enter(function: Builder) -> Builder:
        other = _builders.setdefault(id, function)
        if (other.__module__, other.__qualname__) != (function.__module__, function.__qualname__):
            raise ConfigError(f"the model id {id!r} is taken by {other.__module__}.{other.__qualname__}")
        return function

    return enter


def models() -> dict[str, str]:
    """Return the id and a one-line description of every model."""
    _discover()
    return {id: (inspect.getdoc(_builders[id]) or "").partition("\n")[0] for id in sorted(_builders)}


def build(id: str, classes: int, in_channels: int, image_size: int, seed: int) -> nn.Module:
    """Return the model `id` for square images, with PyTorch's default initialisation keyed by `seed`.

    Equal arguments give equal weights; torch's global generator is left as it was.
    """
    _discover()
    if id not in _builders:
        raise ConfigError(nearest(id, _builders, "model"))
    sizes = {"classes": classes, "in_channels": in_channels, "image_size": image_size}
    for name, value in sizes.items():
        if value < 1:
            raise ConfigError(f"{id}: {name} must be at least 1, not {value}")
    with preserved_global_state():
        torch.default_generator.manual_seed(key(seed, "init"))
        return _builders[id](classes, in_channels, image_size)


@functools.cache
def _discover() -> None:
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__, f"{__package__}."):
        importlib.import_module(module.name)
