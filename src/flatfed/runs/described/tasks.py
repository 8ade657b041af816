"""A task on disk: how to build it again without pickle, so that a run directory is enough to resume.

A task made by a catalogue carries its own recipe. One made of tensors is written out: data as safetensors, the
model as a tree of module classes with their plain attributes, functions by their import path. What cannot be
described so (a class defined in a script, a Dataset object) needs the task again: `ff.resume(path, task=task)`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from flatfed.core.configuration.config import PLAIN
from flatfed.core.errors import CheckpointError, FlatfedError
from flatfed.core.evaluation.metrics import Classification
from flatfed.core.model.layout import Local
from flatfed.core.task.examples import Partition, TensorExamples
from flatfed.core.task.task import Task
from flatfed.runs.files import replace_file

LIMIT = 2**30
"""Tasks with more bytes of data than this are not copied into the run directory."""


class CannotDescribe(FlatfedError):
    """Something in the task has no description outside this process."""


def describe_task(task: Task) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a recipe (JSON) and the tensors that it refers to."""
    tensors: dict[str, Tensor] = {}
    recipe = {
        "kind": "tensors",
        "name": task.name,
        "test_batch": task.test_batch,
        "class_names": list(task.class_names),
        "model": _Describer(tensors).module(task.model, "model"),
        "clients": _describe_clients(task, tensors),
        "test": _describe_examples(task.test, "test", tensors) if task.test is not None else None,
        "loss": _import_path(task.loss),
        "augment": _describe_callable(task.augment),
        "prepare": _describe_callable(task.prepare),
        "joint": _describe_callable(task.joint),
        "tests": {name: _describe_examples(test, f"tests/{name}", tensors) for name, test in task.tests.items()},
        "local": {"names": list(task.kept_local.names), "types": [_import_path(t) for t in task.kept_local.types]}
        | {"buffers_only": task.kept_local.buffers_only},
    }
    if type(task.metrics) is not Classification:
        raise CannotDescribe("it has metrics of its own")
    if sum(t.numel() * t.element_size() for t in tensors.values()) > LIMIT:
        raise CannotDescribe(f"its data exceed {LIMIT / 2**30:g} GB")
    return recipe, tensors


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write a task's tensors."""
    replace_file(path, safetensors.torch.save({name: t.detach().contiguous() for name, t in tensors.items()}))


def rebuild_task(recipe: dict[str, Any], path: Path) -> Task:
    """Build a task from its recipe and its tensors' file."""
    try:
        tensors = safetensors.torch.load_file(path)
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    local = recipe["local"]
    return Task(
        model=_Rebuilder(tensors).module(without_addresses(recipe["model"])),
        clients=_rebuild_clients(recipe["clients"], tensors),
        test=_rebuild_examples("test", tensors) if recipe["test"] else None,
        loss=_imported(recipe["loss"]),
        augment=_rebuild_callable(recipe["augment"]),
        prepare=_rebuild_callable(recipe["prepare"]),
        joint=_rebuild_callable(recipe.get("joint")),
        tests={name: _rebuild_examples(f"tests/{name}", tensors) for name in recipe.get("tests", {})},
        local=Local(tuple(_imported(t) for t in local["types"]), tuple(local["names"]), local["buffers_only"]),
        name=recipe["name"],
        test_batch=recipe.get("test_batch", 512),
        class_names=recipe.get("class_names", ()),
    )


# Examples.


def _describe_examples(examples: Any, name: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    if not isinstance(examples, TensorExamples):
        raise CannotDescribe(f"{name} is a {type(examples).__name__}, not a pair of tensors")
    tensors[f"{name}/x"], tensors[f"{name}/y"] = examples.inputs.clone(), examples.targets.clone()
    return {"count": len(examples)}


def _describe_clients(task: Task, tensors: dict[str, Tensor]) -> dict[str, Any]:
    if isinstance(task.clients, Partition):
        _describe_examples(task.clients.pool, "pool", tensors)
        for client, part in enumerate(task.clients.parts):
            tensors[f"part/{client}"] = part
        return {"pool": True, "count": task.population}
    for client in range(task.population):
        _describe_examples(task.examples(client), f"client/{client}", tensors)
    return {"pool": False, "count": task.population}


def _rebuild_examples(name: str, tensors: dict[str, Tensor]) -> TensorExamples:
    return TensorExamples(tensors[f"{name}/x"], tensors[f"{name}/y"])


def _rebuild_clients(described: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    count = range(described["count"])
    if described["pool"]:
        return Partition(tensors["pool/x"], tensors["pool/y"], [tensors[f"part/{k}"] for k in count])
    return [_rebuild_examples(f"client/{k}", tensors) for k in count]


# Modules: the tree of classes, plain attributes, parameters and buffers.

INTERNAL = frozenset(nn.Module().__dict__) - {"training"}
DERIVED = {"_flat_weights", "_flat_weight_refs"}
"""What recurrent modules make of their parameters; made anew when they are rebuilt."""


class _Describer:
    """Describes modules; a module or a parameter that comes again is told by the path of its first place."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors
        self._modules: dict[int, str] = {}
        self._parameters: dict[int, str] = {}

    def module(self, module: nn.Module, path: str) -> dict[str, Any]:
        if id(module) in self._modules:
            return {"same": self._modules[id(module)]}
        self._modules[id(module)] = path
        if any(len(hooks) for name, hooks in module.__dict__.items() if name.endswith("_hooks")):
            raise CannotDescribe(f"{path} has hooks")
        skipped = INTERNAL | (DERIVED if isinstance(module, nn.RNNBase) else set())
        return {
            "path": path,
            "class": _import_path(type(module)),
            "attributes": {n: _plain(v, f"{path}.{n}") for n, v in module.__dict__.items() if n not in skipped},
            "parameters": {n: self._parameter(p, f"{path}.{n}") for n, p in module._parameters.items()},
            "buffers": {n: self._buffer(b, f"{path}.{n}") for n, b in module._buffers.items()},
            "transient": sorted(module._non_persistent_buffers_set),
            "children": {n: None if c is None else self.module(c, f"{path}.{n}") for n, c in module._modules.items()},
        }

    def _parameter(self, parameter: Tensor | None, path: str) -> dict[str, Any] | None:
        if parameter is None:
            return None
        first = self._parameters.setdefault(id(parameter), path)
        if first == path:
            self._tensors[path] = parameter.detach().clone()
        return {"tensor": first, "grad": parameter.requires_grad}

    def _buffer(self, buffer: Tensor | None, path: str) -> str | None:
        if buffer is not None:
            self._tensors[path] = buffer.detach().clone()
        return None if buffer is None else path


def without_addresses(model: dict[str, Any], first: dict[Any, str] | None = None) -> dict[str, Any]:
    """Return a model's description as it is written today: older ones tell shared parameters by their addresses."""
    if "same" in model:
        return model
    known: dict[Any, str] = {} if first is None else first
    parameters = {
        name: entry
        and {"tensor": known.setdefault(entry.get("id", entry["tensor"]), entry["tensor"])} | {"grad": entry["grad"]}
        for name, entry in model["parameters"].items()
    }
    children = {name: child and without_addresses(child, known) for name, child in model["children"].items()}
    return model | {"parameters": parameters, "children": children}


class _Rebuilder:
    """Builds modules from their description; what was one module or one parameter becomes one again."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors
        self._modules: dict[str, nn.Module] = {}
        self._parameters: dict[str, nn.Parameter] = {}

    def module(self, described: dict[str, Any]) -> nn.Module:
        if "same" in described:
            return self._modules[described["same"]]
        cls = _imported(described["class"])
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
            raise CheckpointError(f"{described['class']} is not a module class")
        module: nn.Module = cls.__new__(cls)
        self._modules[described["path"]] = module
        nn.Module.__init__(module)
        for name, value in described["attributes"].items():
            object.__setattr__(module, name, _unplain(value))
        self._fill(module, described)
        if isinstance(module, nn.RNNBase):
            module._init_flat_weights()
        return module

    def _fill(self, module: nn.Module, described: dict[str, Any]) -> None:
        for name, entry in described["parameters"].items():
            module.register_parameter(name, None if entry is None else self._parameter(entry))
        for name, path in described["buffers"].items():
            value = None if path is None else self._tensors[path].clone()
            module.register_buffer(name, value, persistent=name not in described["transient"])
        for name, child in described["children"].items():
            module.add_module(name, None if child is None else self.module(child))

    def _parameter(self, entry: dict[str, Any]) -> nn.Parameter:
        path = entry["tensor"]
        if path not in self._parameters:
            self._parameters[path] = nn.Parameter(self._tensors[path].clone(), requires_grad=entry["grad"])
        return self._parameters[path]


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, torch.Size | tuple):
        return {"tuple": [_plain(v, where) for v in value]}
    if isinstance(value, list):
        return [_plain(v, where) for v in value]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return _describe_callable(value)
    if callable(value) and not isinstance(value, nn.Module):
        return {"import": _import_path(value)}
    raise CannotDescribe(f"{where} is a {type(value).__name__}")


def _unplain(value: Any) -> Any:
    if isinstance(value, list):
        return [_unplain(v) for v in value]
    if isinstance(value, dict) and "class" in value:
        return _rebuild_callable(value)
    if isinstance(value, dict):
        return tuple(_unplain(v) for v in value["tuple"]) if "tuple" in value else _imported(value["import"])
    return value


# Functions and classes by import path.


def _import_path(thing: Any) -> str:
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    path = f"{module}:{name}"
    if module in (None, "__main__") or name is None or _lookup(path) is not thing:
        raise CannotDescribe(f"{thing!r:.60} cannot be imported by name")
    return path


def _describe_callable(thing: Any) -> dict[str, Any] | None:
    """Describe a function by its path, or an object of a dataclass by its class and plain fields."""
    if thing is None:
        return None
    if hasattr(thing, "__dataclass_fields__") and not isinstance(thing, type):
        fields = {name: _plain(getattr(thing, name), name) for name in thing.__dataclass_fields__}
        return {"class": _import_path(type(thing)), "fields": fields}
    return {"function": _import_path(thing)}


def _rebuild_callable(described: dict[str, Any] | None) -> Any:
    if described is None:
        return None
    if "function" in described:
        return _imported(described["function"])
    return _imported(described["class"])(**{name: _unplain(v) for name, v in described["fields"].items()})


def _lookup(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (ImportError, AttributeError, ValueError):
        return None


def _imported(path: str) -> Any:
    found = _lookup(path)
    if found is None:
        raise CheckpointError(f"{path} cannot be imported here; pass the task: ff.resume(path, task=task)")
    return found
