"""Tasks made from the catalogues: a data set, a partition over clients and a model, all by name."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flatfed import models
from flatfed.core.errors import CheckpointError, ConfigError
from flatfed.core.examples import Partition, TensorExamples
from flatfed.core.layout import Local
from flatfed.core.task import Task
from flatfed.data.catalogue import load
from flatfed.data.partition import Partitioner
from flatfed.data.pool import Pool


@dataclass(frozen=True)
class TaskRecipe:
    """What it takes to build a task again: `seed` keys the partition and the initial weights."""

    dataset: str
    clients: int
    partition: dict[str, Any] = field(default_factory=lambda: {"id": "dirichlet"})
    model: str | None = None
    augment: bool = True
    seed: int = 0
    local_parts: str | None = None

    def build(self) -> Task:
        """Load the data, divide it and initialise the model."""
        pool = _pool(self.dataset)
        partitioner = Partitioner.registry.from_dict(self.partition)
        if self.clients < 1:
            raise ConfigError(f"clients must be at least 1, not {self.clients}")
        parts = partitioner.split(np.asarray(pool.train_targets), self.clients, self.seed)
        name = self.model or pool.default_model
        return Task(
            model=models.build(name, pool.classes, pool.in_channels, pool.image_size, self.seed),
            clients=Partition(pool.train_inputs, pool.train_targets, parts),
            test=TensorExamples(pool.test_inputs, pool.test_targets),
            augment=pool.augment if self.augment else None,
            prepare=pool.prepare,
            local=self.local_parts or Local(),
            name=self.dataset,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe, ready for JSON."""
        return {"kind": "catalogue", **{name: getattr(self, name) for name in self.__dataclass_fields__}}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TaskRecipe:
        """Undo `to_dict`."""
        try:
            return cls(**{name: value for name, value in data.items() if name != "kind"})
        except TypeError as error:
            raise CheckpointError(f"the task of this run cannot be built: {error}") from None


@functools.lru_cache(maxsize=2)
def _pool(dataset: str) -> Pool:
    return load(dataset)
