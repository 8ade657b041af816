"""The head of a model: the layers whose outputs are the scores of the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    names = declared or _declared_by(id, model) or [_last_linear(id, model, classes)]
    _check_modules(id, names, dict(model.named_modules()))
    return _tensors_in(names, model)


def _tensors_in(names: Sequence[str], model: nn.Module) -> set[str]:
    # With the dot: `head` must not take `header.weight` along.
    beginnings = tuple(f"{name}." for name in names)
    return {tensor for tensor in model.state_dict() if tensor.startswith(beginnings)}


def _check_modules(id: str, names: Sequence[str], modules: Mapping[str, nn.Module]) -> None:
    for name in names:
        if name not in modules:
            raise ConfigError(f"{id}: {nearest(name, filter(None, modules), 'module of the head')}")


def _declared_by(id: str, model: nn.Module) -> tuple[str, ...]:
    """Return the modules that a model names as its head; none where it says nothing."""
    names: Any = getattr(model, ATTRIBUTE, ())
    if isinstance(names, str):
        return (names,)
    if not _are_texts(names):
        raise ConfigError(f"{id}: {ATTRIBUTE} must name modules, such as ('fc',), not {names!r}")
    return tuple(names)


def _are_texts(names: Any) -> bool:
    return isinstance(names, list | tuple) and set(map(type, names)) <= {str}


def _last_linear(id: str, model: nn.Module, classes: int) -> str:
    """Return the last linear layer; it alone must have an output for each class."""
    outputs = _linear_outputs(model)
    fitting = _with_outputs(classes, outputs)
    why = _why_unclear(outputs, fitting, classes)
    # No guess: it could leave out a wrong layer, and nobody would see it.
    if why:
        raise ConfigError(f"which part of {id} is the head? {why}; say so in the class: {ATTRIBUTE} = ('name',)")
    return fitting[0]


def _linear_outputs(model: nn.Module) -> dict[str, int]:
    """Return the linear layers in the order of the model, with the number of their outputs."""
    layers = {name: module.out_features for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    # A model that is one linear layer and nothing else has no part by a name.
    layers.pop("", None)
    return layers


def _with_outputs(count: int, outputs: dict[str, int]) -> list[str]:
    """Return the layers that have this number of outputs."""
    return [name for name, number in outputs.items() if number == count]


def _why_unclear(outputs: dict[str, int], fitting: Sequence[str], classes: int) -> str:
    """Return why the last linear layer may not be the head; nothing where it is."""
    if not outputs:
        return "it holds no linear layer"
    if len(fitting) > 1:
        return f"{' and '.join(fitting)} have {classes} outputs each"
    name, count = list(outputs.items())[-1]
    if fitting == [name]:
        return ""
    return f"its last linear layer, {name}, has {count} outputs for {classes} classes"
