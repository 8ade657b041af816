"""Tasks by name: `ff.task("cifar10", model="cnn", partition="dirichlet", alpha=0.1, clients=100)`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.core.task.task import Task
from flatfed.experiments.spelling.belonging import refuse_idle, unusual
from flatfed.experiments.spelling.declared import RENAMED, SET
from flatfed.experiments.spelling.options import DATA, RunOptions, named_settings
from flatfed.experiments.spelling.outside_names import options_with_ids
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.experiments.tasks.recipe_from_options import recipe_from
from flatfed.named_code import USER

NO_OPTIONS: Mapping[str, Any] = {}

OF_THE_TASK = (
    *("clients", "partition", "alpha", "beta", "partition_seed", "validation", "validation_split"),
    *("augment", "no_augment", "data_dir", "model", "metrics", "weights", "new_head", "local_layers", SET),
)
"""Options that describe a task; the others are of its training."""


def task(dataset: str, *, seed: int = 0, data: Mapping[str, Any] = NO_OPTIONS, **options: Any) -> Task:
    """Return the task that `flatfed run` would train: data, partition, model and augmentation by name.

    Args:
        dataset: the data set, by its id or the import path of a function that loads it.
        seed: decides the initial weights and, unless `partition_seed` is given, the partition.
        data: options of the data set: `{"path": "hospitals.csv", "target": "risk"}`.
        options: those of `flatfed run` that describe a task, by their names there: `clients`, `partition`, `alpha`,
            `model`, `augment`, `weights`, ...; and `set`, what --set sets: `{"model.hidden": 64}`.
    """
    return recipe_of(dataset, seed, data, options).build()


def recipe_of(dataset: str, seed: int, data: Mapping[str, Any], options: Mapping[str, Any]) -> TaskRecipe:
    """Return the recipe of the task that options describe."""
    for name in options:
        if RENAMED.get(name, name) not in OF_THE_TASK:
            raise ConfigError(nearest(name, OF_THE_TASK, "option of a task"))
    read = options_with_ids(options_of(data, options), USER)
    named = named_settings(read, ())
    if named.methods:
        raise ConfigError(f"set: {next(iter(named.methods))!r} is no option of partition, model or data")
    return recipe_from(dataset, read, named, seed)


def options_of(data: Mapping[str, Any], options: Mapping[str, Any]) -> RunOptions:
    """Return options as they are given in Python: those of the data stand apart, None is as if nothing was said."""
    given = {name: as_written(value) for name, value in options.items() if value is not None}
    named = {f"{DATA}{name}": as_written(value) for name, value in _by_name("data", data, "path").items()}
    settings = {name: as_written(value) for name, value in _by_name(SET, given.pop(SET, {}), "model.hidden").items()}
    twice = named.keys() & settings.keys()
    if twice:
        raise ConfigError(f"{min(twice)} is given twice, in data and in set; give it once")
    read = RunOptions.read({**given, SET: settings | named}, firm=True)
    refuse_idle(unusual(read.values), read.values)
    return read


def _by_name(argument: str, content: Any, example: str) -> Mapping[str, Any]:
    """Return a mapping of options, or the error that something is none."""
    if not isinstance(content, Mapping):
        raise ConfigError(
            f'{PARAMETER} must be a mapping of names to values, such as {{"{example}": ...}}, not {content!r:.60}',
            parameter=argument,
        )
    return content


def as_written(value: Any) -> Any:
    """Return a value as a file would hold it."""
    return str(value) if isinstance(value, Path) else value
