"""The head of a model: the layers whose outputs are the scores of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from flatfed.core.errors import ConfigError, nearest

ATTRIBUTE = "head_names"
"""What a model of one's own may say: the names of the modules that make up its head."""


def head_tensors(id: str, model: nn.Module, classes: int, declared: Sequence[str] | None = None) -> set[str]:
    """Return the names of the tensors of a model's head, as in its state dict.

    The catalogue declares the head of its models; one's own may do so in `head_names`. Where nothing is declared it is
    the last linear layer, if that alone has an output for each class; anything else is a `ConfigError`.
    """
    names = declared or _said(id, model) or [_last_linear(id, model, classes)]
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise ConfigError(f"{id}: {nearest(name, filter(None, modules), 'module of the head')}")
    return {tensor for tensor in model.state_dict() if any(tensor.startswith(f"{name}.") for name in names)}


def _said(id: str, model: nn.Module) -> tuple[str, ...]:
    """Return the modules that a model names as its head; none where it says nothing."""
    names: Any = getattr(model, ATTRIBUTE, ())
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{id}: {ATTRIBUTE} must name modules, such as ('fc',), not {names!r}")
    return tuple(names)


def _last_linear(id: str, model: nn.Module, classes: int) -> str:
    """Return the last linear layer; it alone must have an output for each class."""
    layers: dict[str, int] = {n: m.out_features for n, m in model.named_modules() if isinstance(m, nn.Linear) and n}
    fitting = [name for name, outputs in layers.items() if outputs == classes]
    if len(fitting) == 1 and fitting[0] == list(layers)[-1]:
        return fitting[0]
    if not layers:
        why = "it holds no linear layer"
    elif len(fitting) > 1:
        why = f"{' and '.join(fitting)} have {classes} outputs each"
    else:
        why = (
            f"its last linear layer, {list(layers)[-1]}, has {list(layers.values())[-1]} outputs for {classes} classes"
        )
    raise ConfigError(f"which part of {id} is the head? {why}; say so in the class: {ATTRIBUTE} = ('name',)")
