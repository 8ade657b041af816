"""The parts of a plan that come from outside the package: recorded with a run, and compared when it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flatfed.core.configuration.registry import FAMILIES
from flatfed.core.errors import PARAMETER, CheckpointError
from flatfed.core.task.metrics import Metrics
from flatfed.data.catalogue import find
from flatfed.data.partition import Partitioner
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import recipe_of
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.models.catalogue import builder_of
from flatfed.outside.origins import ORIGINS, changes_of_code, origins_of, recorded_origins
from flatfed.runs.described.import_paths import files_of, named_files
from flatfed.runs.directory import CODE, RunDirectory


def record_of_code(plan: Plan, recipe: dict[str, Any]) -> dict[str, Any]:
    """Return what a run's record holds of the code that it names: files of modules, and where its parts come from."""
    origins = _origins(plan)
    # Models, data and metrics are in the recipe, by the paths that name them.
    modules = {origin["module"] for origin in origins if origin["family"] in FAMILIES}
    files = named_files(recipe) | files_of(sorted(modules))
    return {CODE: files, ORIGINS: origins} if origins else {CODE: files}


def code_changes(directory: RunDirectory, plan: Plan) -> str:
    """Return what is other code now than when a run was made; empty where nothing is."""
    before = recorded_origins(directory.config)
    return "; ".join(changes_of_code(before, recorded_origins({ORIGINS: _origins(plan)}))) if before else ""


def with_accepted_code(directory: RunDirectory, plan: Plan, accept: bool) -> RunDirectory:
    """Return the run as if its code had always been this, where the user accepts it; refuse other code otherwise."""
    changes = code_changes(directory, plan)
    if not changes:
        return directory
    if not accept:
        raise CheckpointError(
            f"{directory.path}: {changes}; put the code back as it was, or go on with this: {PARAMETER}",
            parameter="accept_changed_code",
        )
    return directory.with_config(**record_of_code(plan, directory.config["task"]))


def _origins(plan: Plan) -> list[dict[str, Any]]:
    recipe = recipe_of(plan)
    measurements = [monitor.measurement for monitor in plan.watch]
    configs = [plan.algorithm, plan.average, plan.sampler, plan.settings, plan.workers, *measurements]
    if recipe is None:
        return origins_of(configs, _of_task(plan))
    return origins_of([*configs, Partitioner.registry.from_dict(recipe.partition)], _of_recipe(plan, recipe))


def _of_recipe(plan: Plan, recipe: TaskRecipe) -> Iterator[tuple[str, str, Any]]:
    """Yield the functions and classes of a task of the catalogue."""
    yield "data set", recipe.dataset, find(recipe.dataset, recipe.by).written
    model = recipe.model or recipe.pool().default_model
    yield "model", model, builder_of(model, plan.named_by)
    if recipe.metrics is not None:
        yield "metric", recipe.metrics, type(plan.task.metrics)


def _of_task(plan: Plan) -> Iterator[tuple[str, str, Any]]:
    """Yield the classes of a task from Python."""
    metrics: type[Metrics] = type(plan.task.metrics)
    for family, cls in (("model", type(plan.task.model)), ("metric", metrics)):
        yield family, f"{cls.__module__}:{cls.__qualname__}", cls
