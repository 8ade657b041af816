"""How a recipe divides its data among clients: in numbers, and how many samples of each class each client holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from flatfed.core.task.examples import Partition
from flatfed.core.task.task import Task
from flatfed.data.partition import Partitioner, class_counts, describe
from flatfed.experiments.tasks.recipe import PARTITION_DIGEST, TaskRecipe, partition_digest


@dataclass(frozen=True)
class Division:
    """A partition: `report` has its numbers, ready for JSON, and `table` the samples of clients x classes."""

    report: dict[str, Any]
    table: npt.NDArray[np.int64]

    @property
    def title(self) -> str:
        """What is divided, by which rule, among how many clients."""
        report = self.report
        return f"{report['dataset']}: {_rule(report['partition'])}, {report['clients']} clients, {_seed(report)}"


def division_of(recipe: TaskRecipe) -> Division:
    """Load the data of a recipe and divide them."""
    pool, parts = recipe.pool(), recipe.parts()
    table = class_counts(parts, np.asarray(pool.labels), pool.classes)
    report = {
        "dataset": recipe.dataset,
        "partition": recipe.partition,
        "meaning": Partitioner.registry.from_dict(recipe.partition).meaning(pool.classes),
        "seed": recipe.seed,
        "partition_seed": recipe.partition_seed,
        **describe(parts, np.asarray(pool.labels)),
        "classes": pool.classes,
        # The fingerprint is that of the partition, so that any model will do.
        PARTITION_DIGEST: partition_digest(Task(nn.Identity(), Partition.over(pool.train, parts))),
        "sizes": table.sum(axis=1).tolist(),
        "classes_held": (table > 0).sum(axis=1).tolist(),
    }
    return Division(report, table)


def _rule(partition: dict[str, Any]) -> str:
    """Return the id of a partition, with its parameters where it has any."""
    parameters = [f"{name}={value}" for name, value in partition.items() if name != "id" and value != ""]
    if not parameters:
        return str(partition["id"])
    return f"{partition['id']}({', '.join(parameters)})"


def _seed(report: dict[str, Any]) -> str:
    """Return the seed that the partition is drawn with."""
    if report["partition_seed"] is None:
        return f"seed {report['seed']}"
    return f"partition seed {report['partition_seed']}"
