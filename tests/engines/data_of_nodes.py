"""A data set in a file, for clusters whose nodes read it themselves: `engines.data_of_nodes:load`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.core.task.task import Task
from flatfed.data.directory import DataDirectory
from flatfed.experiments.tasks.recipe import TaskRecipe

FILE, SLOW, READS = "examples.npz", "slow", "reads"


def written(folder: Path) -> Path:
    """Write it, the same everywhere; it is too large for Ray to pass it by."""
    folder.mkdir()
    generator = np.random.default_rng(8)
    inputs = generator.normal(size=(1200, 30)).astype(np.float32)
    np.savez(folder / FILE, inputs=inputs, targets=np.arange(1200) % 4)
    return folder


def load(directory: DataDirectory) -> tuple[Any, ...]:
    """Read it; where a file `slow` lies beside it, leave a mark, and wait until that is gone."""
    while (directory.path / SLOW).exists():
        (directory.path / READS).touch()
        time.sleep(0.01)
    with np.load(directory.path / FILE) as arrays:
        inputs, targets = arrays["inputs"], arrays["targets"]
    return inputs[:1000], targets[:1000], inputs[1000:], targets[1000:]


def task_of(folder: Path, clients: int) -> Task:
    """Return a task over it."""
    return TaskRecipe("engines.data_of_nodes:load", clients=clients, model="logreg", data_dir=str(folder)).build()
