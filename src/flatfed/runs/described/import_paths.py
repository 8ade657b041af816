"""Functions, classes and plain values by name, so that JSON can hold them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import nn

from flatfed.core.configuration.config import PLAIN
from flatfed.core.errors import CheckpointError, FlatfedError
from flatfed.named_code import NamedBy, is_library, is_within_library, origin_of, place_of
from flatfed.runs.records.earlier_versions import import_path_of_today

FUNCTIONS = ("torch.nn.functional", "torch._C._nn", "flatfed.core.task.losses")
"""Modules whose functions any file may name: losses and activations, which see tensors and nothing else."""

TRANSFORMS = ("flatfed.data.storage.pool:Normalise", "flatfed.data.formats.images:CropNormalise")
AUGMENTATIONS = "flatfed.data.augment."
"""What any file may name to prepare examples and to augment them."""

NAMING = ("class", "function", "import", "loss", "types")
"""Keys of a described task that name code."""


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


def rebuild_value(described: Any, by: NamedBy) -> Any:
    """Undo `describe_value`."""
    if isinstance(described, list):
        return [rebuild_value(entry, by) for entry in described]
    if not isinstance(described, dict):
        return described
    if "class" in described:
        return rebuild_callable(described, by)
    if "tuple" in described:
        return tuple(rebuild_value(entry, by) for entry in described["tuple"])
    return imported_function(described["import"], by)


def describe_callable(thing: Any) -> dict[str, Any] | None:
    """Describe a function by its path, or an object of a dataclass by its class and plain fields."""
    if thing is None:
        return None
    if not _is_dataclass_object(thing):
        return {"function": import_path(thing)}
    fields = {name: describe_value(getattr(thing, name), name) for name in thing.__dataclass_fields__}
    return {"class": import_path(type(thing)), "fields": fields}


def rebuild_callable(described: dict[str, Any] | None, by: NamedBy) -> Any:
    """Undo `describe_callable`."""
    if described is None:
        return None
    if "function" in described:
        return imported_function(described["function"], by)
    fields = {name: rebuild_value(value, by) for name, value in described["fields"].items()}
    return imported_transform(described["class"], by)(**fields)


def import_path(thing: Any) -> str:
    """Return where a function or class can be imported from: `module:name`."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    path = f"{module}:{name}"
    # The module of a script is another one when it is resumed, and a name may lead to something else.
    if module in (None, "__main__") or name is None or _lookup(path) is not thing:
        raise CannotDescribe(f"{thing!r:.60} cannot be imported by name")
    # No file is believed that names it.
    if place_of(module).is_standard:
        raise CannotDescribe(f"{path} is in Python's standard library")
    return path


def _lookup(path: str) -> Any:
    """Return what the path of a thing at hand leads to."""
    module, _, name = path.partition(":")
    try:
        thing: Any = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return thing


# --- from a file ----------------------------------------------------------------------------------------------
#
# What is imported at all is decided by where it lies (`NamedBy`). Of flatfed and torch, which any file may name, only
# a few kinds are built: nothing of them opens a file or starts anything.


def imported_module_class(path: str, by: NamedBy) -> type[nn.Module]:
    """Return the class of modules that a path names."""
    cls = _imported(path, by)
    if not _is_module_class(cls):
        raise CheckpointError(f"{path} is not a module class")
    return cls  # type: ignore[no-any-return]


def imported_transform(path: str, by: NamedBy) -> Any:
    """Return the dataclass that a path names, whose objects are called with a batch."""
    cls = _imported(path, by)
    if not isinstance(cls, type) or not hasattr(cls, "__dataclass_fields__"):
        raise CheckpointError(f"{path} is not a dataclass")
    if is_within_library(cls.__module__) and not _is_transform(cls):
        raise CheckpointError(f"{path} neither prepares examples nor augments them")
    return cls


def imported_function(path: str, by: NamedBy) -> Any:
    """Return the function, or the class of modules, that a path names."""
    thing = _imported(path, by)
    if not callable(thing):
        raise CheckpointError(f"{path} is not a function")
    if is_within_library(origin_of(thing)) and not (_is_module_class(thing) or _is_of_tensors(thing)):
        raise CheckpointError(f"{path} is not a function of tensors")
    return thing


def _is_module_class(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, nn.Module)


def _is_transform(cls: type) -> bool:
    path = f"{cls.__module__}:{cls.__qualname__}"
    is_called = any("__call__" in vars(base) for base in cls.__mro__)
    return is_called and (path in TRANSFORMS or path.startswith(AUGMENTATIONS))


def _is_of_tensors(thing: Any) -> bool:
    is_function = isinstance(thing, FunctionType | BuiltinFunctionType)
    return is_function and thing.__module__ in FUNCTIONS and not thing.__name__.startswith("_")


def _imported(path: Any, by: NamedBy) -> Any:
    """Return what a path names, also where an earlier version had it elsewhere."""
    try:
        return by.find(import_path_of_today(str(path)))
    except (ImportError, AttributeError, ValueError) as error:
        if isinstance(error, FlatfedError):
            raise
        raise CheckpointError(f"{path} cannot be imported here; pass the task: ff.resume(path, task=task)") from None


def named_files(recorded: Any) -> dict[str, str]:
    """Return the modules of others than flatfed and torch that the record of a task names, with their files."""
    return files_of(sorted({path.partition(":")[0] for path in _paths(recorded)}))


def _paths(recorded: Any, key: str = "") -> Iterator[str]:
    """Yield the import paths in a record, the model and the data set of a catalogue's task included."""
    if isinstance(recorded, dict):
        for name, value in recorded.items():
            yield from _paths(value, name)
    elif isinstance(recorded, list):
        for value in recorded:
            yield from _paths(value, key)
    elif isinstance(recorded, str) and ":" in recorded and key in (*NAMING, "model", "dataset", "metrics"):
        yield recorded


def _is_dataclass_object(value: Any) -> bool:
    return hasattr(value, "__dataclass_fields__") and not isinstance(value, type)


def files_of(modules: list[str]) -> dict[str, str]:
    """Return the files of modules that are imported, packages on the way included: what a record holds of them."""
    files: dict[str, str] = {}
    for module in modules:
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            name = ".".join(parts[:count])
            file = place_of(name).file if name in sys.modules else None
            if file is not None and not is_library(name):
                files[name] = str(file)
    return files
