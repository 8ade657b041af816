"""Functions, classes and plain values by name, so that JSON can hold them."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import nn

from flatfed.core.configuration.config import PLAIN
from flatfed.core.errors import CheckpointError, FlatfedError
from flatfed.runs.earlier_versions import import_path_of_today


class CannotDescribe(FlatfedError):
    """Something in the task has no description outside this process."""


def describe_value(value: Any, where: str) -> Any:
    """Return a plain value, a tuple, a function or an object of a dataclass as JSON can hold it."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, torch.Size | tuple):
        return {"tuple": [describe_value(entry, where) for entry in value]}
    if isinstance(value, list):
        return [describe_value(entry, where) for entry in value]
    if _is_dataclass_object(value):
        return describe_callable(value)
    if callable(value) and not isinstance(value, nn.Module):
        return {"import": import_path(value)}
    raise CannotDescribe(f"{where} is a {type(value).__name__}")


def rebuild_value(described: Any) -> Any:
    """Undo `describe_value`."""
    if isinstance(described, list):
        return [rebuild_value(entry) for entry in described]
    if not isinstance(described, dict):
        return described
    if "class" in described:
        return rebuild_callable(described)
    if "tuple" in described:
        return tuple(rebuild_value(entry) for entry in described["tuple"])
    return imported(described["import"])


def describe_callable(thing: Any) -> dict[str, Any] | None:
    """Describe a function by its path, or an object of a dataclass by its class and plain fields."""
    if thing is None:
        return None
    if not _is_dataclass_object(thing):
        return {"function": import_path(thing)}
    fields = {name: describe_value(getattr(thing, name), name) for name in thing.__dataclass_fields__}
    return {"class": import_path(type(thing)), "fields": fields}


def rebuild_callable(described: dict[str, Any] | None) -> Any:
    """Undo `describe_callable`."""
    if described is None:
        return None
    if "function" in described:
        return imported(described["function"])
    fields = {name: rebuild_value(value) for name, value in described["fields"].items()}
    return imported(described["class"])(**fields)


def import_path(thing: Any) -> str:
    """Return where a function or class can be imported from: `module:name`."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    path = f"{module}:{name}"
    # The module of a script is another one when it is resumed, and a name may lead to something else.
    if module in (None, "__main__") or name is None or _lookup(path) is not thing:
        raise CannotDescribe(f"{thing!r:.60} cannot be imported by name")
    return path


def imported(path: str) -> Any:
    """Return what a path names, also where an earlier version had it elsewhere."""
    thing = _lookup(path)
    if thing is None:
        raise CheckpointError(f"{path} cannot be imported here; pass the task: ff.resume(path, task=task)")
    return thing


def _lookup(path: str) -> Any:
    module, _, name = import_path_of_today(path).partition(":")
    try:
        thing: Any = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return thing


def _is_dataclass_object(value: Any) -> bool:
    return hasattr(value, "__dataclass_fields__") and not isinstance(value, type)
