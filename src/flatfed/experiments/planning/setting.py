"""What a run is made of, resolved and in numbers: data, clients, network, cost per round. The record's `setting`.

What a method costs is counted on a tiny run rather than declared, so that it cannot be out of date.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from flatfed.core.configuration.base_optimiser import SGDStep
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser, client_slots
from flatfed.core.method.engine import Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.state import Slots
from flatfed.core.round.exchange import ENVELOPE_DOWN, ENVELOPE_UP
from flatfed.core.round.sampling import Sampler, Uniform
from flatfed.core.round.step_count import unheard
from flatfed.core.task.examples import PartExamples, Partition, TensorExamples
from flatfed.core.task.task import VALIDATION, Task
from flatfed.data.augment.spelling import spelled
from flatfed.data.catalogue import find
from flatfed.data.partition import summary
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.tasks.recipe import DataSetOrigin, TaskRecipe
from flatfed.models.catalogue import with_defaults

# A vector so long that a few scalars differ from one in their bytes.
INPUTS, OUTPUTS, EXAMPLES = 64, 4, 4
VECTOR = 8 * (INPUTS + 1) * OUTPUTS
SCALARS = VECTOR // 4
"""Fewer bytes than this, per client and exchange, are scalars."""


@dataclass(frozen=True)
class Costs:
    """A method's costs from its second round on: vectors are model-sized, per client and round."""

    down: int
    up: int
    exchanges: int
    client_state: tuple[str, ...]
    server_state: tuple[str, ...]
    records: tuple[str, ...]
    backprops: int
    """Per local step, over all exchanges."""
    passes: int
    """Full passes over the client's examples besides the local steps, per round."""
    forwards: int
    """Forward passes without a backward one, per local step."""
    takes_optimiser: bool
    uniform: bool

    @property
    def compute(self) -> str:
        """Backprops and what comes on top, in words."""
        forward = ["forward pass"] if self.forwards else []
        full = ["full batch per round"] if self.passes else []
        return " + ".join([str(self.backprops), *forward, *full])


# The runs of a comparison differ in their seeds, and most of them have a method in common.
@functools.lru_cache(maxsize=64)
def costs(algorithm: Algorithm) -> Costs:
    """Count what a method exchanges, keeps and computes, on a run of two rounds with one and with two local steps."""
    task = _tiny_task()
    one, two = _Probe(task, algorithm, 1), _Probe(task, algorithm, 2)
    # What a second step adds is the cost of a step; the rest comes once per round.
    per_step = two.backprops - one.backprops
    return Costs(
        down=_vectors(one.bytes_down - ENVELOPE_DOWN * one.exchanges),
        up=_vectors(one.bytes_up - ENVELOPE_UP * one.exchanges),
        exchanges=one.exchanges,
        client_state=_names(client_slots(algorithm, SGDStep())),
        server_state=_names(algorithm.server_state()),
        records=_names(algorithm.records()),
        backprops=per_step,
        passes=one.backprops - per_step,
        forwards=(two.forwards - two.backprops) - (one.forwards - one.backprops),
        takes_optimiser="client_opt" in parameters(type(algorithm)),
        uniform=algorithm.uniform,
    )


def optimiser_backprops(optimiser: ClientOptimiser) -> int:
    """Return the backprops per local step of a client optimiser."""
    return costs(Algorithm.registry.make("fedavg", client_opt=optimiser)).backprops


def _vectors(count: int) -> int:
    vectors, rest = divmod(count, VECTOR)
    if rest > SCALARS:
        raise AssertionError(f"{rest} bytes are neither vectors nor a few scalars")
    return vectors


def _names(slots: Slots) -> tuple[str, ...]:
    """Return the model-sized entries."""
    return tuple(name for name, slot in slots.items() if slot.kind == "vector" or slot.of == "vector")


class _Counting(nn.Linear):
    """A linear model that counts its forward passes."""

    passes = 0

    def forward(self, inputs: Tensor) -> Tensor:
        """Count and compute."""
        # On the class: the engine trains a copy of the model.
        _Counting.passes += 1
        return super().forward(inputs)


class _CountingEngine(InProcessEngine):
    """An engine that counts its exchanges."""

    exchanges = 0

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Count and run."""
        self.exchanges += 1
        return super().exchange(message, jobs)


def _tiny_task() -> Task:
    """Return a task of one client; an engine trains a copy of its model, so it serves more than once."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(EXAMPLES, INPUTS, generator=generator), torch.arange(EXAMPLES) % OUTPUTS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _Counting(INPUTS, OUTPUTS)
    return Task(model, [data])


class _Probe:
    """What the second round of a tiny run with one client exchanges and runs."""

    def __init__(self, task: Task, algorithm: Algorithm, steps: int) -> None:
        settings = Settings(rounds=2, lr=0.01, batch_size=None, local_epochs=steps, dtype="float64")
        engine = _CountingEngine(task, algorithm, settings)
        federation = Plan(task, algorithm, settings, Uniform(1), workers=0).federation(engine)
        with warnings.catch_warnings(), unheard():
            warnings.simplefilter("ignore")
            rounds = federation.rounds()
            # The first round may be another one: FedGF, say, has no earlier model to send in it.
            next(rounds)
            before, engine.exchanges = _Counting.passes, 0
            row = next(rounds)
        self.forwards = _Counting.passes - before
        self.backprops, self.bytes_down, self.bytes_up = row["backprops"], row["bytes_down"], row["bytes_up"]
        self.exchanges = engine.exchanges


Facts = dict[str, Any]

HELD_OUT = "held_out"
"""How many of the clients' examples are held out for validation, where some are."""
COUNTER = 8
"""Bytes of a counter, such as BatchNorm's of batches."""


def describe(plan: Plan) -> Facts:
    """Return what is used, what was left to defaults filled in, ready for JSON."""
    task, recipe = plan.task, recipe_of(plan)
    return {
        "data": _data(task, recipe) | _held_out(plan, recipe),
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


def _held_out(plan: Plan, recipe: TaskRecipe | None) -> Facts:
    origin = plan.task.origin
    made_by = origin.recipe if recipe is None and isinstance(origin, DataSetOrigin) else recipe
    rule = plan.validation if made_by is None else plan.validation or made_by.validation
    return {} if rule is None else {HELD_OUT: len(plan.task.test_sets[VALIDATION])}


def _data_of_recipe(recipe: TaskRecipe) -> Facts:
    pool = recipe.pool()
    options = find(recipe.dataset, recipe.by).with_defaults(recipe.data_options)
    # A quantity has none.
    classes = pool.classes if pool.classes > 1 else None
    return {"name": recipe.dataset, "options": options, "examples": len(pool.train), "classes": classes}


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
    return None if not isinstance(targets, Tensor) or targets.ndim != 1 or targets.is_floating_point() else targets


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
    counted = _counted(plan.algorithm)
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


def _counted(algorithm: Algorithm) -> Costs | None:
    """Count the method's costs on a tiny run; a method of the user's own may not suit one, and goes without."""
    try:
        return costs(algorithm.at(0).replace())  # an object of its own: the run's is left alone
    except Exception:
        return None


def work_per_step(algorithm: Algorithm) -> float:
    """Return about how much a local step of the method computes, in backward passes; 1 where that is not known.

    A forward pass by itself is about a third of a forward and backward one.
    """
    counted = _counted(algorithm)
    return 1.0 if counted is None else counted.backprops + counted.forwards / 3


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
    if "p" in cohort:
        return f"each with probability {cohort['p']:g} per round"
    return f"clients drawn by {sampler.id}"
