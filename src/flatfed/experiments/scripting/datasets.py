"""Data sets and partitions by name: `ff.dataset("cifar10")`, `ff.partition(labels, "dirichlet", alpha=0.1)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.core.task.task import Task
from flatfed.data.catalogue import load, usual_partition
from flatfed.data.directory import DataDirectory
from flatfed.data.partition import Partitioner
from flatfed.data.storage.pool import Pool
from flatfed.data.tables.preprocessing import Preprocessing
from flatfed.experiments.scripting.tasks_by_name import as_written, task

Ints = npt.NDArray[np.int64]
NO_GROUPS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class DataSet:
    """A data set of the catalogue, or one of the user's own by its import path.

    Args:
        id: its name, as on the command line.
        pool: its examples, and what belongs to them.
        options: the options that it was loaded with.
        data_dir: where it lies, if not in the usual place.
    """

    id: str
    pool: Pool = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    data_dir: str | None = None

    @property
    def train(self) -> tuple[Tensor, Tensor]:
        """The training examples, inputs and targets, as they are stored: `prepare` makes a model's inputs of them."""
        return _tensors(self.pool.train)

    @property
    def test(self) -> tuple[Tensor, Tensor]:
        """The test examples, as they are stored."""
        return _tensors(self.pool.test)

    @property
    def tests(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Further test sets by name."""
        return {name: _tensors(examples) for name, examples in self.pool.tests.items()}

    @property
    def labels(self) -> Ints:
        """The class of each training example, by which partitions go."""
        return np.asarray(self.pool.labels)

    @property
    def classes(self) -> int:
        """The number of classes; 1 where the target is a quantity."""
        return self.pool.classes

    @property
    def class_names(self) -> list[str]:
        """The names of the classes, where they are known."""
        return list(self.pool.class_names)

    @property
    def groups(self) -> dict[str, Ints]:
        """Natural divisions of the training examples by name: a number for each example."""
        return {name: np.asarray(numbers) for name, numbers in self.pool.groups.items()}

    @property
    def prepare(self) -> Callable[[Tensor], Tensor] | None:
        """What makes a model's inputs of stored ones; None where they are the same."""
        return self.pool.prepare

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What turned the rows of a table into inputs; None where the data are of another kind."""
        record = self.pool.preprocessing
        return None if record is None else Preprocessing.from_dict(record)

    def partition(self, id: str = "", *, clients: int | None = None, seed: int = 0, **parameters: Any) -> list[Ints]:
        """Return for each client the indices of its training examples; by default by the data set's usual partition."""
        id = id or usual_partition(self.id, self.options)
        groups = self.groups
        return partition(
            self.labels, id, clients=clients, seed=seed, groups=groups, data_dir=self.data_dir, **parameters
        )

    def task(self, *, seed: int = 0, **options: Any) -> Task:
        """Return a task on these data: `ff.task` with the options that the data set was loaded with."""
        return task(self.id, seed=seed, data=self.options, data_dir=self.data_dir, **options)


def _tensors(examples: Examples) -> tuple[Tensor, Tensor]:
    """Return all examples as two tensors; those that lie in files are read."""
    if isinstance(examples, TensorExamples):
        return examples.inputs, examples.targets
    return examples.batch(torch.arange(len(examples)))


def dataset(id: str, *, data_dir: str | Path | None = None, **options: Any) -> DataSet:
    """Return a data set by its id, or by the import path of a function that loads one.

    Args:
        id: `cifar10`, `table`, ... (`flatfed list datasets`), or `package.module:function`.
        data_dir: where data sets lie; else $FLATFED_DATA, else ~/.cache/flatfed/data.
        options: those of the data set, as `--set data.NAME=VALUE` gives them.
    """
    directory = None if data_dir is None else str(data_dir)
    written = {name: as_written(value) for name, value in options.items()}
    return DataSet(id, load(id, directory, **written), written, directory)


def partition(
    labels: npt.ArrayLike | Tensor,
    id: str = "dirichlet",
    *,
    clients: int | None = None,
    seed: int = 0,
    groups: Mapping[str, npt.ArrayLike | Tensor] = NO_GROUPS,
    data_dir: str | Path | None = None,
    **parameters: Any,
) -> list[Ints]:
    """Return for each client the indices of its samples, in increasing order: as a run with this seed has them.

    Args:
        labels: the class of each sample, whole numbers.
        id: the partition: `iid`, `dirichlet`, `pathological`, ... (`flatfed list partitions`).
        clients: how many there are; by default 100, or as many as the data or a file say.
        seed: of the run, or its `partition_seed`.
        groups: further numbers for each sample by name: whose it is, for `natural`; `coarse` labels, for `pam`.
        data_dir: where a file is looked for that is not here, for `file`.
        parameters: those of the partition: `alpha=0.1`.
    """
    if not isinstance(id, str):
        raise ConfigError(f"a partition is named by its id, such as 'dirichlet', not by {id!r:.60}")
    written = {name: as_written(value) for name, value in parameters.items()}
    rule = Partitioner.registry.make(id, **written).within(DataDirectory(data_dir))
    numbers = {name: np.asarray(values) for name, values in groups.items()}
    return rule.divide(np.asarray(labels), numbers, clients, seed)
