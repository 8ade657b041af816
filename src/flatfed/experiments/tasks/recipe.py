"""Tasks by recipe: data, partition and model by name, from a run directory, or still in memory."""

from __future__ import annotations

import functools
import hashlib
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from flatfed import models
from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError
from flatfed.core.model.layout import Local
from flatfed.core.task.examples import Examples, Partition
from flatfed.core.task.task import VALIDATION, Augment, BatchTransform, Task
from flatfed.core.task.validation import HeldOut, Split
from flatfed.data.augment.spelling import named, spelled
from flatfed.data.catalogue import find
from flatfed.data.directory import DataDirectory
from flatfed.data.partition import Partitioner
from flatfed.data.storage.held_out import divided
from flatfed.data.storage.pool import Pool, fingerprint
from flatfed.data.tables.preprocessing import KEY as PREPROCESSING
from flatfed.experiments.tasks.named_metrics import named_metrics
from flatfed.experiments.tasks.trial import Trial
from flatfed.hub_models.pretrained import fingerprint as folder_fingerprint
from flatfed.models.catalogue import with_defaults
from flatfed.models.hub import is_hub_model, place_of_model
from flatfed.named_code import USER, NamedBy
from flatfed.outside.origins import enter_recorded
from flatfed.runs.described.import_paths import CannotDescribe
from flatfed.runs.described.tasks import describe_task, rebuild_task, tensor_bytes
from flatfed.runs.directory import RunDirectory
from flatfed.runs.records.files import digest, read_whole, refuse_way_out, replace_file


def task_over(
    pool: Pool, model: nn.Module, clients: Sequence[Any], augment: bool | str, local_layers: str | None, **more: Any
) -> Task:
    """Return the task of a data set whose examples are divided among clients; `more` are further fields of it."""
    transform, batch_transform = augmentation_of(pool, augment)
    more = {"metrics": pool.metrics} | more
    return Task(
        model=model,
        clients=clients,
        test=pool.test,
        loss=pool.loss,
        augment=transform,
        batch_transform=batch_transform,
        prepare=pool.prepare,
        local=local_layers or Local(),
        test_batch=getattr(pool.test, "evaluation_batch", 512),
        class_names=pool.class_names,
        **more,
    )


def augmentation_of(pool: Pool, augment: bool | str) -> tuple[Augment | None, BatchTransform | None]:
    """Return the augmentation that is asked for: the data set's own, none, or some by name (`crop-flip,cutout(8)`)."""
    if isinstance(augment, str):
        return named(augment, {"classes": pool.classes, **pool.facts})
    return (pool.augment, pool.batch_transform) if augment else (None, None)


@dataclass(frozen=True)
class TaskRecipe:
    """What it takes to build a task again.

    `seed` keys the initial weights and the partition; a `partition_seed` keys the partition alone, so that runs with
    other seeds have the same one. A `validation` share of the examples, of each client's or of all together
    (`validation_split`), is held out as a test set. `metrics` takes the place of the data set's own.
    """

    dataset: str
    clients: int | None = None
    partition: dict[str, Any] = field(default_factory=lambda: {"id": "dirichlet"})
    model: str | None = None
    augment: bool | str = True
    seed: int = 0
    local_layers: str | None = None
    data_dir: str | None = None
    data_options: dict[str, Any] = field(default_factory=dict)
    model_options: dict[str, Any] = field(default_factory=dict)
    weights: str | None = None
    new_head: bool = False
    partition_seed: int | None = None
    validation: float | None = None
    metrics: str | None = None
    validation_split: Split = "client"
    by: NamedBy = field(default=USER, compare=False, repr=False)
    """Who named the data set; it is no part of what is recorded."""

    def build(self, by: NamedBy = USER) -> Task:
        """Load the data, divide it, initialise the model, and try the model on two of the examples.

        `by` says who named the model: where a file did, not every import path is believed. Who named the data set is
        the recipe's to say.
        """
        origin = DataSetOrigin(self)
        pool = origin.pool
        name = self.model or pool.default_model
        model = models.build(
            name,
            pool.classes,
            seed=self.seed,
            options=self.model_options,
            weights=self.weights,
            new_head=self.new_head,
            by=by,
            **pool.facts,
        )
        Trial(pool, *augmentation_of(pool, self.augment), self.augment).run(name, self.model_options, model)
        parts, held = self._divided()
        tests = pool.tests
        if held is not None:
            tests = {**pool.tests, VALIDATION: Partition.over(pool.train, [held])[0]}
        clients = Partition.over(pool.train, parts)
        more = {"tests": tests, "name": self.dataset, "origin": origin}
        if self.metrics is not None:
            more["metrics"] = named_metrics(self.metrics, by)
        return task_over(pool, model, clients, self.augment, self.local_layers, **more)

    def _divided(self) -> tuple[list[Any], Any]:
        """Return each client's examples, and those that are held out for validation; None where none are."""
        if self.validation is None:
            return self.parts(), None
        rule = HeldOut(self.validation, self.validation_split)
        return divided(self.parts(), rule.share, rule.split)

    def resolved(self, population: int) -> TaskRecipe:
        """Return the recipe with defaults written out: what is recorded of a run with this number of clients."""
        model = self.model or self.pool().default_model
        # A user's own class has its defaults in the user's hands.
        options = self.model_options if ":" in model else with_defaults(model, self.model_options)
        return replace(self, clients=population, model=model, model_options=options)

    def augmentation(self) -> dict[str, Any]:
        """Return the augmentation step by step with all arguments, and whether it is the data set's own."""
        pool = self.pool()
        names = spelled(*augmentation_of(pool, self.augment))
        return {"names": names, "default": names == spelled(pool.augment, pool.batch_transform)}

    def pool(self) -> Pool:
        """Return the data set."""
        # Judged every time: who names code now may not be who named it when it was loaded.
        source = find(self.dataset, self.by)
        # As text, for the cache needs keys that can be hashed.
        return _pool(source.id, self.data_dir, json.dumps(self.data_options, sort_keys=True), source.written)

    def parts(self) -> list[Any]:
        """Return for each client the indices of its training examples."""
        if self.clients is not None and self.clients < 1:
            raise ConfigError(f"clients must be at least 1, not {self.clients}")
        pool, partitioner = self.pool(), Partitioner.registry.from_dict(self.partition)
        groups = {name: np.asarray(numbers) for name, numbers in pool.groups.items()}
        partitioner = partitioner.within(DataDirectory(self.data_dir))
        seed = self.seed if self.partition_seed is None else self.partition_seed
        return partitioner.divide(np.asarray(pool.labels), groups, self.clients, seed)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe, ready for JSON."""
        names = [name for name in self.__dataclass_fields__ if name != "by"]
        return {"kind": "catalogue", **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, data: dict[str, Any], by: NamedBy) -> TaskRecipe:
        """Undo `to_dict`; `by` says whose word it is."""
        try:
            return cls(**{name: value for name, value in data.items() if name not in NO_PARAMETERS}, by=by)
        except TypeError as error:
            raise CheckpointError(f"the task of this run cannot be built: {error}") from None


def usual_recipe() -> dict[str, Any]:
    """Return what a recipe says where nothing is said, of the parameters that are plain values."""
    return {entry.name: entry.default for entry in fields(TaskRecipe) if entry.default is not MISSING}


@dataclass(frozen=True, eq=False)
class DataSetOrigin:
    """The data set of a recipe: where the examples of its tasks come from."""

    recipe: TaskRecipe

    @functools.cached_property
    def pool(self) -> Pool:
        """The data set, read when it is first needed, and the same from then on."""
        return self.recipe.pool()

    def examples(self) -> Mapping[str, Examples]:
        """Return the training examples and the test sets by name."""
        further = {f"tests.{name}": examples for name, examples in self.pool.tests.items()}
        return {"train": self.pool.train, "test": self.pool.test, **further}

    def fingerprint(self) -> str:
        """Return the hash of the examples, as runs record it."""
        return _data_digest(self.pool)

    def within(self, data_dir: str) -> DataSetOrigin:
        """Return the same data set as it lies in another directory."""
        # Whoever named it was judged here; another machine has code of its own under that name.
        return DataSetOrigin(replace(self.recipe, data_dir=data_dir, by=USER))

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent: the examples stay behind."""
        return {"recipe": self.recipe}


PARTITION_DIGEST, DATA_DIGEST, TENSORS_DIGEST = "partition_sha256", "data_sha256", "tensors_sha256"
MODEL_DIGEST = "model_sha256"
FINGERPRINTS = (PARTITION_DIGEST, DATA_DIGEST, TENSORS_DIGEST, MODEL_DIGEST)
"""What is recorded with a recipe to notice that a task built from it is another one."""
NO_PARAMETERS = ("kind", "by", *FINGERPRINTS)
"""What the record of a recipe may hold that is not taken from it: who names code is never a record's to say."""


def partition_digest(task: Task) -> str:
    """Return a hash of who holds which examples."""
    digest = hashlib.sha256()
    assert isinstance(task.clients, Partition)
    for part in task.clients.parts:
        # The length too: otherwise examples could go from the end of one part to the next unnoticed.
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.numpy().tobytes())
    return digest.hexdigest()


# A comparison builds many tasks from one data set, which is loaded once; few are held, as they may be large.
@functools.lru_cache(maxsize=2)
def _pool(dataset: str, data_dir: str | None, options: str, _function: Callable[..., Any]) -> Pool:
    """Load a data set; another function under the same import path is another data set."""
    return find(dataset).open(DataDirectory(data_dir), json.loads(options))


# By the object: as long as it lives, its examples do not change.
@functools.lru_cache(maxsize=2)
def _data_digest(pool: Pool) -> str:
    return fingerprint(pool)


def preprocessing_of(task: Task) -> dict[str, Any]:
    """Return what turned raw rows into a task's inputs, for the record of a run; nothing where there is no such thing.

    It is kept in full: whoever has the model later has rows to treat alike, and perhaps not the training data.
    """
    record = task.origin.pool.preprocessing if isinstance(task.origin, DataSetOrigin) else None
    return {} if record is None else {PREPROCESSING: dict(record)}


TENSORS = "task.safetensors"

# Weakly: a process that trains many runs must not hold the data of all of them.
_IN_MEMORY: weakref.WeakValueDictionary[Path, Task] = weakref.WeakValueDictionary()


def remember(path: Path, task: Task) -> None:
    """Keep the task of a run directory at hand while this process lives."""
    _IN_MEMORY[path.resolve()] = task


def write_task(
    task: Task, recipe: dict[str, Any] | None, by: NamedBy = USER
) -> tuple[dict[str, Any], Callable[[Path], None]]:
    """Return what is recorded of a task and a function that writes what belongs to it into a run directory.

    `recipe` is given where the task was built from one, and `by` says whose word it is; it is described as it is
    otherwise.
    """
    if recipe is not None:
        return _recorded_recipe(task, recipe, by)
    try:
        # Apart, also where the method pools the clients: the plan pools them again when the run is opened.
        described, tensors = describe_task(task.apart())
    except CannotDescribe as error:
        return {"kind": "memory", "name": task.name, "reason": str(error)}, _write_nothing
    return _with_tensors(described, tensors)


def _recorded_recipe(task: Task, recipe: dict[str, Any], by: NamedBy) -> tuple[dict[str, Any], Callable[[Path], None]]:
    recorded = recipe | _digests(task.apart(), TaskRecipe.from_dict(recipe, by))
    if recipe.get("weights") is None:
        return recorded, _write_nothing
    # The weights to start from are kept: their file may be gone when the run is opened again.
    start = {name: tensor.clone() for name, tensor in task.model.state_dict().items()}
    return _with_tensors(recorded, start)


def _digests(task: Task, recipe: TaskRecipe) -> dict[str, str]:
    digests = {PARTITION_DIGEST: partition_digest(task), DATA_DIGEST: _data_digest(recipe.pool())}
    if recipe.model is None or not is_hub_model(recipe.model):
        return digests
    return digests | {MODEL_DIGEST: folder_fingerprint(place_of_model(recipe.model))}


def _write_nothing(path: Path) -> None:
    """Leave the run directory as it is."""


def _with_tensors(record: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[dict[str, Any], Callable[[Path], None]]:
    data = tensor_bytes(tensors)
    return record | {TENSORS_DIGEST: digest(data)}, lambda path: replace_file(path / TENSORS, data)


def task_of(directory: RunDirectory, remembered: bool = True) -> Task:
    """Return the task of a run directory; one still in memory serves, unless it is to be built anew."""
    known = _IN_MEMORY.get(directory.path.resolve())
    if known is not None and remembered:
        return known
    recipe = directory.config["task"]
    if recipe["kind"] == "catalogue":
        return _built_again(directory, recipe)
    if recipe["kind"] == "tensors":
        return rebuild_task(recipe, _checked_tensors(directory), directory.named_by)
    raise ConfigError(
        f"{directory.path} was made from a task that only lived in memory ({recipe['reason']}); "
        "pass it again: ff.resume(path, task=task)"
    )


def _built_again(directory: RunDirectory, recipe: dict[str, Any]) -> Task:
    """Build a task of the catalogue; other data than before, or otherwise divided, are an error."""
    if (directory.path / TENSORS).exists():  # the whole model that the run started from, its new head included
        recipe = recipe | {"weights": str(_checked_tensors(directory)), "new_head": False}
    enter_recorded(directory.config, directory.named_by)
    made = TaskRecipe.from_dict(recipe, directory.named_by)
    task = made.build(directory.named_by)
    if not directory.accepts_changed_data:
        _refuse_changed(directory, recipe, _digests(task, made))
    return task


def _refuse_changed(directory: RunDirectory, recipe: dict[str, Any], digests: dict[str, str]) -> None:
    for name, digest_now in digests.items():
        # Earlier versions recorded fewer of them.
        recorded = recipe.get(name)
        if recorded is not None and recorded != digest_now:
            raise CheckpointError(f"{directory.path}: {CHANGED[name]}", parameter="accept_changed_data")


CHANGED = {
    MODEL_DIGEST: "the folder of its model does not hold what the run was made with; put it back as it was, or go on "
    f"with this one: {PARAMETER}",
    DATA_DIGEST: "its examples or labels are not those that the run was made with; put the data back as they were, or "
    f"go on with these: {PARAMETER}",
    PARTITION_DIGEST: "the data give another partition now than when the run was made; put them back as they were, or "
    f"go on with this one: {PARAMETER}",
}


def accepted(directory: RunDirectory, task: Task) -> RunDirectory:
    """Return the run as if its data had always been these, where the user accepts them."""
    recipe = directory.config["task"]
    if recipe["kind"] != "catalogue" or not directory.accepts_changed_data:
        return directory
    made = TaskRecipe.from_dict(recipe, directory.named_by)
    preprocessing = made.pool().preprocessing
    record = {} if preprocessing is None else {PREPROCESSING: dict(preprocessing)}
    return directory.with_config(task=recipe | _digests(task.apart(), made), **record)


def _checked_tensors(directory: RunDirectory) -> Path:
    """Return the file of a task's tensors, unchanged since it was written."""
    path = directory.path / TENSORS
    refuse_way_out(path, directory.path)
    recorded = directory.config["task"].get(TENSORS_DIGEST)
    if recorded is None or not path.exists():  # of an earlier version; or whoever reads it says that it is missing
        return path
    if digest(read_whole(path)) != recorded:
        raise CheckpointError(f"{path} was changed after it was written: put it back as it was, or pass the task")
    return path
