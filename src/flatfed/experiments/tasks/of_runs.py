"""Tasks by recipe: from the catalogue of data sets and models, from a run directory, or still in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.task.task import Task
from flatfed.experiments.running.plan import Plan
from flatfed.runs.described.tasks import CannotDescribe, describe_task, rebuild_task, save_tensors
from flatfed.runs.directory import RunDirectory

TENSORS = "task.safetensors"

_IN_MEMORY: weakref.WeakValueDictionary[Path, Task] = weakref.WeakValueDictionary()


def remember(path: Path, task: Task) -> None:
    """Keep the task of a run directory at hand while this process lives."""
    _IN_MEMORY[path.resolve()] = task


def write_task(plan: Plan) -> tuple[dict[str, Any], Callable[[Path], None]]:
    """Return the task's recipe and a function that writes what the recipe needs into a run directory."""
    if plan.task_recipe is not None:
        from flatfed.experiments.tasks.recipe import FINGERPRINT, fingerprint

        # The weights to start from are kept: their file may be gone when the run is opened again.
        start = plan.task.model.state_dict() if plan.task_recipe.get("weights") is not None else None
        recipe = plan.task_recipe | {FINGERPRINT: fingerprint(plan.task.apart())}
        return recipe, _writer({n: t.clone() for n, t in start.items()}) if start is not None else lambda path: None
    try:
        recipe, tensors = describe_task(plan.task.apart())
    except CannotDescribe as error:
        return {"kind": "memory", "name": plan.task.name, "reason": str(error)}, lambda path: None
    return recipe, _writer(tensors)


def _writer(tensors: dict[str, Tensor]) -> Callable[[Path], None]:
    return lambda path: save_tensors(path / TENSORS, tensors)


def task_of(directory: RunDirectory, remembered: bool = True) -> Task:
    """Return the task of a run directory; one still in memory serves, unless it is to be built anew."""
    known = _IN_MEMORY.get(directory.path.resolve())
    if known is not None and remembered:
        return known
    recipe = directory.config["task"]
    if recipe["kind"] == "catalogue":
        from flatfed.experiments.tasks.recipe import FINGERPRINT, TaskRecipe, fingerprint

        kept = directory.path / TENSORS
        # What is kept is the whole model that the run started from, its new head included.
        start = {"weights": str(kept), "new_head": False} if kept.is_file() else {}
        made = TaskRecipe.from_dict(recipe | start)
        task = made.build()
        if recipe.get(FINGERPRINT, fingerprint(task)) != fingerprint(task):
            raise CheckpointError(f"{directory.path}: the data give another partition now than when the run was made")
        return task
    if recipe["kind"] == "tensors":
        return rebuild_task(recipe, directory.path / TENSORS)
    raise ConfigError(
        f"{directory.path} was made from a task that only lived in memory ({recipe['reason']}); "
        "pass it again: ff.resume(path, task=task)"
    )
