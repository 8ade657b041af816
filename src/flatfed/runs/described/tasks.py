"""A task on disk: how to build it again without pickle, so that a run directory is enough to resume.

A task made by a catalogue carries its own recipe. One made of tensors is written out: data as safetensors, the
model as a tree of module classes with their plain attributes, functions by their import path. What cannot be
described so (a class defined in a script, a Dataset object) needs the task again: `ff.resume(path, task=task)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from flatfed.core.errors import CheckpointError, FlatfedError
from flatfed.core.model.layout import Local
from flatfed.core.task.metrics import Classification, Metrics
from flatfed.core.task.task import Task
from flatfed.core.task.token_metrics import CausalLanguageModel, Regression, TokenClassification
from flatfed.named_code import NamedBy
from flatfed.runs.described.examples import ExamplesDescriber, ExamplesRebuilder
from flatfed.runs.described.import_paths import (
    CannotDescribe,
    describe_callable,
    import_path,
    imported_function,
    imported_module_class,
    rebuild_callable,
)
from flatfed.runs.described.modules import ModuleDescriber, ModuleRebuilder, without_addresses
from flatfed.runs.records.files import refuse_other_than_file, refuse_way_out

METRICS: dict[str, type[Metrics]] = {
    cls.__name__: cls for cls in (Classification, Regression, TokenClassification, CausalLanguageModel)
}
"""Those that a record names."""

LIMIT = 2**30
"""Tasks with more bytes of data than this are not copied into the run directory."""


def describe_task(task: Task) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a recipe (JSON) and the tensors that it refers to."""
    tensors: dict[str, Tensor] = {}
    describer = ExamplesDescriber(tensors)
    recipe = {
        "kind": "tensors",
        "name": task.name,
        "test_batch": task.test_batch,
        "class_names": list(task.class_names),
        "model": ModuleDescriber(tensors).module(task.model, "model"),
        "clients": describer.clients(task),
        "test": describer.examples(task.test, "test") if task.test is not None else None,
        "loss": import_path(task.loss),
        "augment": describe_callable(task.augment),
        "prepare": describe_callable(task.prepare),
        "batch_transform": describe_callable(task.batch_transform),
        "tests": {name: describer.examples(test, f"tests/{name}") for name, test in task.tests.items()},
        "local": {"names": list(task.kept_local.names), "types": [import_path(t) for t in task.kept_local.types]}
        | {"buffers_only": task.kept_local.buffers_only},
    }
    if describer.forms:
        recipe["forms"] = describer.forms
    if type(task.metrics) is not Classification:
        recipe["metrics"] = _metrics_name(task)
    if sum(t.numel() * t.element_size() for t in tensors.values()) > LIMIT:
        raise CannotDescribe(f"its data exceed {LIMIT / 2**30:g} GB")
    return recipe, tensors


def _metrics_name(task: Task) -> str:
    name = type(task.metrics).__name__
    is_scaled = isinstance(task.metrics, Regression) and task.metrics.scale != 1
    if METRICS.get(name) is not type(task.metrics) or is_scaled:
        raise CannotDescribe("it has metrics of its own")
    return name


def tensor_bytes(tensors: dict[str, Tensor]) -> bytes:
    """Return a task's tensors as they are written."""
    return safetensors.torch.save({name: t.detach().contiguous() for name, t in tensors.items()})


def rebuild_task(recipe: dict[str, Any], path: Path, by: NamedBy) -> Task:
    """Build a task from its recipe and its tensors' file; `by` says whose word the recipe is."""
    refuse_way_out(path, path.parent)
    try:
        refuse_other_than_file(path)
        tensors = safetensors.torch.load_file(path)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    try:
        return _rebuilt(recipe, tensors, by)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if isinstance(error, FlatfedError):
            raise
        # A record that was written by hand, or by a stranger.
        raise CheckpointError(
            f"{by.file or path}: its task cannot be built ({type(error).__name__}: {error})"
        ) from error


def _rebuilt(recipe: dict[str, Any], tensors: dict[str, Tensor], by: NamedBy) -> Task:
    local = recipe["local"]
    types = tuple(imported_module_class(name, by) for name in local["types"])
    examples = ExamplesRebuilder(tensors, recipe.get("forms", {}))
    return Task(
        model=ModuleRebuilder(tensors, by).module(without_addresses(recipe["model"])),
        clients=examples.clients(recipe["clients"]),
        test=examples.examples("test") if recipe["test"] else None,
        loss=imported_function(recipe["loss"], by),
        augment=rebuild_callable(recipe["augment"], by),
        prepare=rebuild_callable(recipe["prepare"], by),
        batch_transform=rebuild_callable(recipe.get("batch_transform"), by),
        tests={name: examples.examples(f"tests/{name}") for name in recipe.get("tests", {})},
        local=Local(types, tuple(local["names"]), local["buffers_only"]),
        metrics=METRICS[recipe.get("metrics", Classification.__name__)](),
        name=recipe["name"],
        test_batch=recipe.get("test_batch", 512),
        class_names=recipe.get("class_names", ()),
    )
