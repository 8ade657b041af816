"""Groups of equal clients that step together on stacked rows, and one by one to compare them with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from engines.bench import assert_same, bits
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.round import stacked_steps
from flatfed.core.round.vectorised import VectorisedClients
from flatfed.core.task.examples import Partition

CLIENTS, SAMPLES = 6, 7
GROUPS = 3  # a client alone is no group
COHORTS = ((0, 1, 2, 3, 4, 5), (1, 3), (4,), (0, 2, 4))
SETTINGS: dict[str, Any] = {"lr": 0.1, "batch_size": 3, "local_epochs": 2, "lr_decay": 0.9, "seed": 7, "workers": 0}


def task(**changes: Any) -> ff.Task:
    """Return a network over equal clients that share a pool of examples."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(CLIENTS * SAMPLES, 6, generator=generator)
    targets = torch.arange(len(inputs)) % 3
    parts = torch.randperm(len(inputs), generator=generator).split(SAMPLES)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 7), nn.LayerNorm(7), nn.Tanh(), nn.Linear(7, 3))
    return ff.Task(**{"model": model, "clients": Partition(inputs, targets, parts), **changes})


def apart(task: ff.Task) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the clients' examples as tensors of their own."""
    examples = [task.examples(client) for client in range(CLIENTS)]
    return [own.batch(torch.arange(SAMPLES)) for own in examples]


def trained(method: Algorithm, data: ff.Task, **changes: Any) -> ff.Run:
    settings = {"rounds": len(COHORTS), "sampling": ff.Replay(COHORTS), "vectorised": True, **SETTINGS}
    return ff.train(data, method, **settings | changes)


class Steps:
    """Counts the groups that have stepped together."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.groups, self._patch = 0, patch
        real = stacked_steps.ClientsTogether._give_back

        def counted(together: stacked_steps.ClientsTogether) -> None:
            real(together)
            self.groups += 1

        patch.setattr(stacked_steps.ClientsTogether, "_give_back", counted)

    def compare(self, method: Algorithm, data: ff.Task, **changes: Any) -> int:
        """Compare the bits of both ways, and return how many groups have stepped together."""
        self.groups = 0
        together = trained(method, data, **changes)
        groups = self.groups
        with self._patch.context() as patch:
            patch.setattr(VectorisedClients, "is_row_wise", False)
            one_by_one = trained(method, data, **changes)
        assert self.groups == groups
        population = together._federation.task.population
        assert_same(bits(together, population), bits(one_by_one, population))
        return groups
