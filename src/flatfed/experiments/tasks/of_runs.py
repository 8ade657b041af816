"""Tasks by recipe: from the catalogue of data sets and models, from a run directory, or still in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.task.task import Task
from flatfed.runs.described.import_paths import CannotDescribe
from flatfed.runs.described.tasks import describe_task, rebuild_task, save_tensors
from flatfed.runs.directory import RunDirectory

TENSORS = "task.safetensors"

# Weakly: a process that trains many runs must not hold the data of all of them.
_IN_MEMORY: weakref.WeakValueDictionary[Path, Task] = weakref.WeakValueDictionary()


def remember(path: Path, task: Task) -> None:
    """Keep the task of a run directory at hand while this process lives."""
    _IN_MEMORY[path.resolve()] = task


def write_task(task: Task, recipe: dict[str, Any] | None) -> tuple[dict[str, Any], Callable[[Path], None]]:
    """Return what is recorded of a task and a function that writes what belongs to it into a run directory.

    `recipe` is given where the task was built from one; it is described as it is otherwise.
    """
    if recipe is not None:
        return _recorded_recipe(task, recipe)
    try:
        # Apart, also where the method pools the clients: the plan pools them again when the run is opened.
        described, tensors = describe_task(task.apart())
    except CannotDescribe as error:
        return {"kind": "memory", "name": task.name, "reason": str(error)}, _write_nothing
    return described, _writer(tensors)


def _recorded_recipe(task: Task, recipe: dict[str, Any]) -> tuple[dict[str, Any], Callable[[Path], None]]:
    from flatfed.experiments.tasks.recipe import FINGERPRINT, fingerprint

    recorded = recipe | {FINGERPRINT: fingerprint(task.apart())}
    if recipe.get("weights") is None:
        return recorded, _write_nothing
    # The weights to start from are kept: their file may be gone when the run is opened again.
    start = {name: tensor.clone() for name, tensor in task.model.state_dict().items()}
    return recorded, _writer(start)


def _write_nothing(path: Path) -> None:
    """Leave the run directory as it is."""


def _writer(tensors: dict[str, Tensor]) -> Callable[[Path], None]:
    return lambda path: save_tensors(path / TENSORS, tensors)


def task_of(directory: RunDirectory, remembered: bool = True) -> Task:
    """Return the task of a run directory; one still in memory serves, unless it is to be built anew."""
    known = _IN_MEMORY.get(directory.path.resolve())
    if known is not None and remembered:
        return known
    recipe = directory.config["task"]
    if recipe["kind"] == "catalogue":
        return _built_again(directory, recipe)
    if recipe["kind"] == "tensors":
        return rebuild_task(recipe, directory.path / TENSORS)
    raise ConfigError(
        f"{directory.path} was made from a task that only lived in memory ({recipe['reason']}); "
        "pass it again: ff.resume(path, task=task)"
    )


def _built_again(directory: RunDirectory, recipe: dict[str, Any]) -> Task:
    """Build a task of the catalogue; data that are divided otherwise than before are an error."""
    from flatfed.experiments.tasks.recipe import FINGERPRINT, TaskRecipe, fingerprint

    kept = directory.path / TENSORS
    if kept.is_file():  # the whole model that the run started from, its new head included
        recipe = recipe | {"weights": str(kept), "new_head": False}
    task = TaskRecipe.from_dict(recipe).build()
    recorded = recipe.get(FINGERPRINT)
    if recorded is not None and recorded != fingerprint(task):
        raise CheckpointError(f"{directory.path}: the data give another partition now than when the run was made")
    return task
