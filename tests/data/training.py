"""Training on a data set by name, in this process and in worker processes."""

from __future__ import annotations

from typing import Any

import torch

import flatfed as ff
from flatfed.core.round.federation import TIMES
from flatfed.experiments.tasks.recipe import TaskRecipe


def same_bits(recipe: TaskRecipe, sampling: int = 2, **settings: Any) -> ff.Run:
    """Train two rounds with no and with two workers, demand the same bits, and return the first run."""
    task = recipe.build()
    given = {"rounds": 2, "sampling": sampling, "lr": 0.05, "batch_size": 8, "evaluate_every": 1, **settings}
    runs = [ff.train(task, ff.make("fedavg"), workers=workers, **given) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    figures = [[{k: v for k, v in row.items() if k not in TIMES} for row in run.history] for run in runs]
    assert figures[0] == figures[1]
    return runs[0]
