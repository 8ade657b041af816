"""Which client of a run holds how many examples of each class, from the data as they lie here."""

from __future__ import annotations

import numpy as np
from torch import nn

from flatfed.core.errors import FlatfedError
from flatfed.core.task.examples import Partition
from flatfed.core.task.task import Task
from flatfed.data.catalogue import is_import_path
from flatfed.data.partition import class_counts
from flatfed.experiments.tasks.recipe import PARTITION_DIGEST, TaskRecipe, partition_digest
from flatfed.named_code import NamedBy
from flatfed.reports.page.client_view import ClassTable
from flatfed.reports.results.result import OneRun

REMOTE = ("hugging-face",)
"""Data sets whose library may ask a server."""


def class_table_of(run: OneRun) -> ClassTable | None:
    """Return the class distribution of a run's clients; None where it cannot be had without code that the run names.

    It is that of the run, or none: the fingerprint of the partition is compared with the one that was recorded.
    """
    recipe = run.config["task"]
    dataset = str(recipe.get("dataset"))
    if recipe.get("kind") != "catalogue" or is_import_path(dataset) or dataset in REMOTE:
        return None
    try:
        return _table(TaskRecipe.from_dict(recipe, NamedBy(run.path / "config.json")), run)
    except (FlatfedError, ImportError, OSError, ValueError, KeyError):
        # The data are elsewhere, or of a kind that cannot be read here.
        return None


def _table(recipe: TaskRecipe, run: OneRun) -> ClassTable | None:
    pool = recipe.pool()
    if not pool.classes:
        return None
    parts, labels = recipe.parts(), np.asarray(pool.labels)
    # Of segmentation each pixel has a class, and no example one.
    if labels.ndim != 1 or not len(labels):
        return None
    digest = partition_digest(Task(nn.Identity(), Partition.over(pool.train, parts)))
    if digest != run.config["task"].get(PARTITION_DIGEST):
        return None
    counts = class_counts(parts, labels, pool.classes)
    return ClassTable(counts.tolist(), list(pool.class_names or ()), run.seed)
