"""Tasks made from the catalogues: a data set, a partition over clients and a model, all by name."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flatfed import models
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.model.layout import Local
from flatfed.core.task.examples import Partition
from flatfed.core.task.task import Augment, BatchTransform, Task
from flatfed.data.augment.spelling import named, spelled
from flatfed.data.catalogue import load
from flatfed.data.directory import DataDirectory
from flatfed.data.partition import Partitioner
from flatfed.data.storage.pool import Pool
from flatfed.experiments.tasks.trial import Trial
from flatfed.models.catalogue import with_defaults


@dataclass(frozen=True)
class TaskRecipe:
    """What it takes to build a task again.

    `seed` keys the initial weights and the partition; a `partition_seed` keys the partition alone, so that runs with
    other seeds have the same one.
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

    def build(self) -> Task:
        """Load the data, divide it, initialise the model, and try the model on two of the examples."""
        pool = self.pool()
        name = self.model or pool.default_model
        model = models.build(
            name,
            pool.classes,
            seed=self.seed,
            options=self.model_options,
            weights=self.weights,
            new_head=self.new_head,
            **pool.facts,
        )
        augment, batch_transform = self._augmentation(pool)
        Trial(pool, augment, batch_transform, self.augment).run(name, self.model_options, model)
        return Task(
            model=model,
            clients=Partition.over(pool.train, self.parts()),
            test=pool.test,
            tests=pool.tests,
            loss=pool.loss,
            metrics=pool.metrics,
            augment=augment,
            batch_transform=batch_transform,
            prepare=pool.prepare,
            local=self.local_layers or Local(),
            name=self.dataset,
            test_batch=getattr(pool.test, "evaluation_batch", 512),
            class_names=pool.class_names,
        )

    def _augmentation(self, pool: Pool) -> tuple[Augment | None, BatchTransform | None]:
        """Return what is asked for: the data set's own, none, or some by name (`crop-flip,cutout(8)`)."""
        if isinstance(self.augment, str):
            return named(self.augment, {"classes": pool.classes, **pool.facts})
        return (pool.augment, pool.batch_transform) if self.augment else (None, None)

    def resolved(self, population: int) -> TaskRecipe:
        """Return the recipe with defaults written out: what is recorded of a run with this number of clients."""
        model = self.model or self.pool().default_model
        # A user's own class has its defaults in the user's hands.
        options = self.model_options if ":" in model else with_defaults(model, self.model_options)
        return replace(self, clients=population, model=model, model_options=options)

    def augmentation(self) -> dict[str, Any]:
        """Return the augmentation step by step with all arguments, and whether it is the data set's own."""
        pool = self.pool()
        names = spelled(*self._augmentation(pool))
        return {"names": names, "default": names == spelled(pool.augment, pool.batch_transform)}

    def pool(self) -> Pool:
        """Return the data set."""
        # As text, for the cache needs keys that can be hashed.
        return _pool(self.dataset, self.data_dir, json.dumps(self.data_options, sort_keys=True))

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
        return {"kind": "catalogue", **{name: getattr(self, name) for name in self.__dataclass_fields__}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TaskRecipe:
        """Undo `to_dict`."""
        try:
            return cls(**{name: value for name, value in data.items() if name not in ("kind", FINGERPRINT)})
        except TypeError as error:
            raise CheckpointError(f"the task of this run cannot be built: {error}") from None


FINGERPRINT = "partition_sha256"


def fingerprint(task: Task) -> str:
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
def _pool(dataset: str, data_dir: str | None, options: str) -> Pool:
    return load(dataset, data_dir, **json.loads(options))
