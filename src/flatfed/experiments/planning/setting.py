"""What a run is made of, resolved and in numbers: data, clients, network, cost per round. The record's `setting`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.round.sampling import Sampler
from flatfed.core.task.examples import PartExamples, Partition, TensorExamples
from flatfed.core.task.task import Task
from flatfed.data.augment.spelling import spelled
from flatfed.data.catalogue import find
from flatfed.data.partition import summary
from flatfed.experiments.planning.costs import Costs, costs
from flatfed.experiments.planning.plan import Plan
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
        "augmentation": _augmentation(task, recipe),
        "cost": _cost(plan),
    }


def _augmentation(task: Task, recipe: TaskRecipe | None) -> Facts:
    if recipe is not None:
        return recipe.augmentation()
    return {"names": spelled(task.augment, task.batch_transform)}


def recipe_of(plan: Plan) -> TaskRecipe | None:
    """Return the recipe of a task of the catalogue; a task from Python has none."""
    written = plan.task_recipe
    if written is None or written.get("kind") != "catalogue":
        return None
    return TaskRecipe.from_dict(written, plan.named_by)


def _data(task: Task, recipe: TaskRecipe | None) -> Facts:
    facts = _data_of_task(task) if recipe is None else _data_of_recipe(recipe)
    return facts | {"tests": {name: len(test) for name, test in task.test_sets.items()}}


def _data_of_recipe(recipe: TaskRecipe) -> Facts:
    pool = recipe.pool()
    options = find(recipe.dataset, recipe.by).with_defaults(recipe.data_options)
    return {"name": recipe.dataset, "options": options, "examples": len(pool.train), "classes": pool.classes}


def _data_of_task(task: Task) -> Facts:
    count = sum(task.samples(client) for client in range(task.population))
    labels = _labels(task)
    classes = None if labels is None else len(torch.unique(torch.cat(labels)))
    return {"name": task.name, "examples": count, "classes": classes}


def _clients(task: Task, recipe: TaskRecipe | None) -> Facts:
    sizes = [task.samples(client) for client in range(task.population)]
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
    per_client: list[Tensor] = []
    for client in range(task.population):
        labels = _classes(task.examples(client))
        if labels is None:
            return None
        per_client.append(labels)
    return per_client


def _classes(examples: Any) -> Tensor | None:
    if isinstance(examples, PartExamples):
        whole = _classes(examples.pool)
        return None if whole is None else whole[examples.part]
    if not isinstance(examples, TensorExamples):
        return None
    targets = examples.targets
    return None if targets.ndim != 1 or targets.is_floating_point() else targets


def _model(plan: Plan, recipe: TaskRecipe | None) -> Facts:
    model = plan.task.model
    size = sum(parameter.numel() for parameter in model.parameters())
    name = type(model).__name__
    options: Facts = {}
    if recipe is not None:
        name = recipe.model or recipe.pool().default_model
        options = with_defaults(name, recipe.model_options, plan.named_by)
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
    # The counting run has a model without buffers, so they are added here; they cross in every exchange.
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


def title_of(recipe: TaskRecipe, settings: Settings, sampler: Sampler, pooled: bool = False) -> str:
    """Say in a line what was trained on: data, division, participation, rounds."""
    division = _division(recipe)
    count = len(recipe.parts()) if recipe.clients is None else recipe.clients
    clients = f"{count} clients"
    if pooled:
        return f"{recipe.dataset}: all examples of {clients} ({division}) in one place, {settings.rounds} rounds"
    return f"{recipe.dataset}: {division}, {clients}, {_participation(sampler)}, {settings.rounds} rounds"


def _division(recipe: TaskRecipe) -> str:
    values = {name: value for name, value in recipe.partition.items() if name != "id" and value != ""}
    rule = ", ".join(f"{name} {_number(value)}" for name, value in values.items())
    partition = f"{recipe.partition['id']} partition"
    return f"{partition} with {rule}" if rule else partition


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _participation(sampler: Sampler) -> str:
    cohort = sampler.to_dict()
    if "count" in cohort:
        return f"{cohort['count']} per round"
    return f"each with probability {cohort['p']:g} per round"
