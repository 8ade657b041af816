"""The size of the population costs nothing: only clients that took part have a state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import flatfed as ff
from flatfed.runs.checkpoints import stores_of

POPULATION = 20_000


@pytest.fixture(scope="module")
def task() -> ff.Task:
    inputs = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    parts = [[k % 64, (7 * k) % 64] for k in range(POPULATION)]
    return ff.Task(model=nn.Linear(6, 3), clients=ff.Partition(inputs, torch.arange(64) % 3, parts))


@pytest.mark.parametrize("algorithm", ["fedsmoo", "feddyn", "scaffold", "fedgloss", "fedavg"])
@pytest.mark.parametrize("workers", [0, 2])
def test_only_clients_that_took_part_have_a_state(algorithm: str, workers: int, task: ff.Task) -> None:
    run = ff.train(task, ff.make(algorithm), rounds=4, sampling=5, lr=0.1, workers=workers)
    assert run.status == "finished"
    took_part = sorted({client for row in run.history for client in row["clients"]})
    assert 5 < len(took_part) <= 20
    stores: dict[str, Any] = stores_of(run._federation)
    for store in stores.values():
        assert set(store.known()) <= set(took_part)
    stateful = bool(ff.make(algorithm).client_state())
    assert stores["clients"].known() == (took_part if stateful else [])


def test_asking_for_the_state_of_a_client_does_not_create_it(task: ff.Task) -> None:
    run = ff.train(task, ff.make("fedsmoo"), rounds=1, sampling=2, lr=0.1, workers=0)
    known = run._federation.clients.known()
    for client in range(0, POPULATION, 100):
        assert all(not state.any() for name, state in run.client_state(client).items() if client not in known)
    assert run._federation.clients.known() == known


def test_the_bytes_of_state_follow_the_clients_that_took_part(task: ff.Task) -> None:
    run = ff.train(task, ff.make("fedsmoo"), rounds=3, sampling=4, lr=0.1, workers=0)
    store: Any = run._federation.clients
    one = sum(max(64, -(-t.numel() * t.element_size() // 64) * 64) for t in run.client_state(0).values())
    assert 0 < store.bytes_in_memory == one * len(store.known())
