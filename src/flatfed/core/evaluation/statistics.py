"""Evaluation: how the test set is divided, and where BatchNorm's statistics come from.

Policies: `running` uses the averaged running statistics, `batch-stats` each test batch's own, `recalibrate` statistics
estimated anew for the evaluated model on a mixed sample of the clients' training examples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from flatfed.core.model.layout import Layout
from flatfed.core.randomness import torch_generator
from flatfed.core.task.examples import joined
from flatfed.core.task.task import Task

Statistics = Literal["running", "batch-stats", "recalibrate"]

CALIBRATION = 10_000
"""Training examples that statistics are estimated on, at most; drawn once per run."""


def default_statistics(layout: Layout) -> Statistics:
    """Return the policy for a model: without shared statistics there are only the test batch's own."""
    return "batch-stats" if has_local_statistics(layout) else "running"


def has_local_statistics(layout: Layout) -> bool:
    """Say whether some statistics stay on the clients."""
    return any(piece.local for piece in layout.buffers)


def test_chunks(task: Task) -> list[tuple[str, int, int]]:
    """Return the fixed division of the test sets: (name, first, count) of each batch, whoever evaluates it."""
    size, tests = task.test_batch, task.test_sets.items()
    return [(name, *chunk) for name, examples in tests for chunk in even_chunks(len(examples), size)]


def even_chunks(total: int, size: int) -> list[tuple[int, int]]:
    """Divide `total` examples into as few batches of at most `size` as possible, that differ by at most one."""
    batches = -(-total // size)
    # A small rest would have poor statistics of its own, where BatchNorm takes those of the test batch.
    ends = [total * number // max(batches, 1) for number in range(batches + 1)]
    return [(first, end - first) for first, end in itertools.pairwise(ends)]


def calibration_batches(task: Task) -> int:
    """Return how many batches the calibration sample has."""
    total = sum(task.samples(k) for k in range(task.population))
    return len(even_chunks(min(total, CALIBRATION), task.test_batch))


class Calibration:
    """The sample of training examples on which statistics are estimated, mixed over all clients."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task = task
        self._examples = joined(task.clients)
        order = torch.randperm(len(self._examples), generator=torch_generator(seed, "calibration"))
        self._sample = order[:CALIBRATION]

    def __len__(self) -> int:
        return calibration_batches(self.task)

    def inputs(self, number: int) -> Tensor:
        """Return the raw inputs of one batch."""
        first, count = even_chunks(len(self._sample), self.task.test_batch)[number]
        return self._examples.batch(self._sample[first : first + count].sort().values)[0]


@contextmanager
def batch_statistics(model: nn.Module, remember: bool = False) -> Iterator[None]:
    """Let BatchNorm layers use their batch's statistics; with `remember` these become the running ones."""
    momenta = {module: module.momentum for module in _batch_norms(model)}
    for module in momenta:
        module.train()
        if remember:
            module.momentum = 1.0  # the running statistics become the batch's, and nothing of what was before
    try:
        yield
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum


def has_batch_norm(model: nn.Module) -> bool:
    """Say whether a model has BatchNorm layers."""
    return bool(_batch_norms(model))


def _batch_norms(model: nn.Module) -> list[_BatchNorm]:
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def averaged(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of the batches' statistics, added in their order."""
    return {name: torch.stack([part[name] for part in parts]).mean(dim=0) for name in parts[0]}
