"""What a run is made of, resolved and in numbers: data, clients, network, cost per round. The record's `setting`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.task.examples import PartExamples, Partition, TensorExamples
from flatfed.core.task.task import Task
from flatfed.data.augment.spelling import spelled
from flatfed.data.catalogue import find
from flatfed.data.partition import summary
from flatfed.experiments.comparing.costs import Costs, costs
from flatfed.experiments.running.plan import Plan
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.models.catalogue import with_defaults

Facts = dict[str, Any]

COUNTER = 8
"""Bytes of a counter, such as BatchNorm's of batches."""


def describe(plan: Plan) -> Facts:
    """Return what is used, what was left to defaults filled in, ready for JSON."""
    task, recipe = plan.task, recipe_of(plan)
    return {
        "data": _data(task, recipe),
        "clients": _clients(task, recipe),
        "partition": recipe.partition if recipe is not None else None,
        "model": _model(plan, recipe),
        "augmentation": recipe.augmentation() if recipe is not None else {"names": spelled(task.augment, task.joint)},
        "cost": _cost(plan),
    }


def recipe_of(plan: Plan) -> TaskRecipe | None:
    """Return the recipe of a task of the catalogue; a task from Python has none."""
    written = plan.task_recipe
    return TaskRecipe.from_dict(written) if written is not None and written.get("kind") == "catalogue" else None


def _data(task: Task, recipe: TaskRecipe | None) -> Facts:
    held = sum(len(task.examples(client)) for client in range(task.population))
    facts: Facts = {"name": task.name, "examples": held, "classes": None}
    if recipe is not None:
        pool = recipe.pool()
        options = find(recipe.dataset).with_defaults(recipe.data_options)
        facts = {"name": recipe.dataset, "options": options, "examples": len(pool.train), "classes": pool.classes}
    elif (labels := _labels(task)) is not None:
        facts["classes"] = len(torch.unique(torch.cat(labels)))
    return facts | {"tests": {name: len(test) for name, test in task.test_sets.items()}}


def _clients(task: Task, recipe: TaskRecipe | None) -> Facts:
    sizes = [len(task.examples(client)) for client in range(task.population)]
    held = _labels(task) if recipe is None else _labels_of_pool(task, recipe)
    classes = None if held is None else summary(np.asarray([len(torch.unique(labels)) for labels in held]))
    return {"count": task.population, "examples": summary(np.asarray(sizes)), "classes": classes}


def _labels_of_pool(task: Task, recipe: TaskRecipe) -> list[Tensor] | None:
    """Return the labels that each client holds; data that all have one label (masks) have none to speak of."""
    labels = recipe.pool().labels
    if not isinstance(task.clients, Partition) or len(torch.unique(labels)) < 2:
        return None
    return [labels[part] for part in task.clients.parts]


def _labels(task: Task) -> list[Tensor] | None:
    """Return the classes in tensors of a task from Python; other examples are not looked through."""
    found = [_classes(task.examples(client)) for client in range(task.population)]
    return None if any(labels is None for labels in found) else [labels for labels in found if labels is not None]


def _classes(examples: Any) -> Tensor | None:
    if isinstance(examples, PartExamples):
        whole = _classes(examples.pool)
        return None if whole is None else whole[examples.part]
    is_class = isinstance(examples, TensorExamples) and examples.targets.ndim == 1
    return examples.targets if is_class and not examples.targets.is_floating_point() else None


def _model(plan: Plan, recipe: TaskRecipe | None) -> Facts:
    model = plan.task.model
    size = sum(parameter.numel() for parameter in model.parameters())
    name = type(model).__name__
    options: Facts = {}
    if recipe is not None:
        name = recipe.model or recipe.pool().default_model
        options = with_defaults(name, recipe.model_options)
    item = plan.settings.torch_dtype.itemsize
    return {
        "name": name,
        "class": type(model).__name__,
        "options": options,
        "parameters": size,
        "bytes": size * item,
    }


def _cost(plan: Plan) -> Facts | None:
    counted = _counted(plan)
    if counted is None:
        return None
    clients, layout, size = plan.sampler.expected(plan.task.population), plan.task.layout(), plan.settings.torch_dtype
    vector = layout.shared * size.itemsize
    buffers = counted.exchanges * (layout.shared_buffers * size.itemsize + layout.shared_counters * COUNTER)
    return {
        "clients": clients,
        "vectors_down": counted.down,
        "vectors_up": counted.up,
        "bytes_down": round(clients * (counted.down * vector + buffers)),
        "bytes_up": round(clients * (counted.up * vector + buffers)),
        "backprops_per_step": counted.compute,
    }


def _counted(plan: Plan) -> Costs | None:
    """Count the method's costs on a tiny run; a method of the user's own may not suit one, and goes without."""
    try:
        return costs(plan.algorithm.at(0).replace())  # an object of its own: the run's is left alone
    except Exception:
        return None
