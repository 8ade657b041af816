"""Modules: the tree of classes, plain attributes, parameters and buffers."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from torch import Tensor, nn

from flatfed.core.errors import CheckpointError
from flatfed.named_code import NamedBy
from flatfed.runs.described.import_paths import (
    CannotDescribe,
    describe_value,
    import_path,
    imported_module_class,
    rebuild_value,
)

INTERNAL = frozenset(nn.Module().__dict__) - {"training"}
DERIVED = {"_flat_weights", "_flat_weight_refs"}
"""What recurrent modules make of their parameters; made anew when they are rebuilt."""


class ModuleDescriber:
    """Describes modules; a module or a parameter that comes again is named by the path of its first place."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors
        self._modules: dict[int, str] = {}
        self._parameters: dict[int, str] = {}

    def module(self, module: nn.Module, path: str) -> dict[str, Any]:
        """Return the description of a module; its tensors are put beside, under their paths."""
        if id(module) in self._modules:
            return {"same": self._modules[id(module)]}
        self._modules[id(module)] = path
        if _has_hooks(module):
            raise CannotDescribe(f"{path} has hooks")
        return {
            "path": path,
            "class": import_path(type(module)),
            "attributes": _attributes(module, path),
            "parameters": {name: self._parameter(p, f"{path}.{name}") for name, p in module._parameters.items()},
            "buffers": {name: self._buffer(b, f"{path}.{name}") for name, b in module._buffers.items()},
            "transient": sorted(module._non_persistent_buffers_set),
            "children": {name: self._child(child, f"{path}.{name}") for name, child in module._modules.items()},
        }

    def _child(self, child: nn.Module | None, path: str) -> dict[str, Any] | None:
        return None if child is None else self.module(child, path)

    def _parameter(self, parameter: Tensor | None, path: str) -> dict[str, Any] | None:
        if parameter is None:
            return None
        first = self._parameters.setdefault(id(parameter), path)
        if first == path:
            self._tensors[path] = parameter.detach().clone()
        return {"tensor": first, "grad": parameter.requires_grad}

    def _buffer(self, buffer: Tensor | None, path: str) -> str | None:
        if buffer is None:
            return None
        self._tensors[path] = buffer.detach().clone()
        return path


def _has_hooks(module: nn.Module) -> bool:
    return any(len(hooks) for name, hooks in module.__dict__.items() if name.endswith("_hooks"))


def _attributes(module: nn.Module, path: str) -> dict[str, Any]:
    """Return what a module keeps besides parameters, buffers and children."""
    skipped = INTERNAL | DERIVED if isinstance(module, nn.RNNBase) else INTERNAL
    own = {name: value for name, value in module.__dict__.items() if name not in skipped}
    for name in own:
        if replaces_behaviour(type(module), name):
            raise CannotDescribe(f"{path}.{name} takes the place of a method of its class")
    return {name: describe_value(value, f"{path}.{name}") for name, value in own.items()}


def replaces_behaviour(cls: type[nn.Module], name: str) -> bool:
    """Say whether an attribute of an object would change how it works: a method, a hook, what torch keeps there."""
    if name in INTERNAL | DERIVED or name.startswith("__") or hasattr(nn.Module, name):
        return True
    there = inspect.getattr_static(cls, name, None)
    return isinstance(there, FunctionType | staticmethod | classmethod) or inspect.isdatadescriptor(there)


def without_addresses(model: dict[str, Any], first: dict[Any, str] | None = None) -> dict[str, Any]:
    """Return a model's description as it is written today: older ones tell shared parameters by their addresses."""
    if "same" in model:
        return model
    known: dict[Any, str] = {} if first is None else first
    parameters = {name: _without_address(entry, known) for name, entry in model["parameters"].items()}
    children = {name: child and without_addresses(child, known) for name, child in model["children"].items()}
    return model | {"parameters": parameters, "children": children}


def _without_address(entry: dict[str, Any] | None, known: dict[Any, str]) -> dict[str, Any] | None:
    if entry is None:
        return None
    address = entry.get("id", entry["tensor"])
    return {"tensor": known.setdefault(address, entry["tensor"]), "grad": entry["grad"]}


class ModuleRebuilder:
    """Builds modules from their description; what was one module or one parameter becomes one again."""

    def __init__(self, tensors: dict[str, Tensor], by: NamedBy) -> None:
        self._tensors, self._by = tensors, by
        self._modules: dict[str, nn.Module] = {}
        self._parameters: dict[str, nn.Parameter] = {}

    def module(self, described: dict[str, Any]) -> nn.Module:
        """Return the module that was described."""
        if "same" in described:
            return self._modules[described["same"]]
        cls = imported_module_class(described["class"], self._by)
        # Not through its own constructor, whose arguments are not known: everything that it made is described.
        module: nn.Module = cls.__new__(cls)
        self._modules[described["path"]] = module
        nn.Module.__init__(module)
        for name, value in described["attributes"].items():
            if replaces_behaviour(cls, name):
                raise CheckpointError(f"{described['path']}.{name} would take the place of a method of {cls.__name__}")
            object.__setattr__(module, name, rebuild_value(value, self._by))
        self._fill(module, described)
        if isinstance(module, nn.RNNBase):
            module._init_flat_weights()
        return module

    def _fill(self, module: nn.Module, described: dict[str, Any]) -> None:
        for name, entry in described["parameters"].items():
            module.register_parameter(name, self._parameter(entry))
        for name, path in described["buffers"].items():
            module.register_buffer(name, self._buffer(path), persistent=name not in described["transient"])
        for name, child in described["children"].items():
            module.add_module(name, None if child is None else self.module(child))

    def _parameter(self, entry: dict[str, Any] | None) -> nn.Parameter | None:
        if entry is None:
            return None
        path = entry["tensor"]
        if path not in self._parameters:
            self._parameters[path] = nn.Parameter(self._tensors[path].clone(), requires_grad=entry["grad"])
        return self._parameters[path]

    def _buffer(self, path: str | None) -> Tensor | None:
        return None if path is None else self._tensors[path].clone()
