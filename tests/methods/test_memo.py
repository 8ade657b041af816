"""Method and client optimiser share `client.memo`: no two of them note under one name."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

import flatfed as ff
from flatfed.algorithms.baselines.fedavg import FedAvg
from flatfed.algorithms.client_optimisers import SGD
from flatfed.core.configuration.config import parameters
from flatfed.core.method.algorithm import Algorithm, ClientOptimiser
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.testing.bench import network_setup, train_network

NOTED: set[str] = set()
"""What the spy saw last; it runs in this process."""


class SpyOptimiser(SGD):
    """SGD that looks into the memo."""

    def gradient(self, client: Client) -> Tensor:
        NOTED.update(vars(client.memo))
        return super().gradient(client)


class SpyMethod(FedAvg):
    """FedAvg that looks into the memo."""

    def finish(self, client: Client) -> Message:
        NOTED.update(vars(client.memo))
        return super().finish(client)


def noted(method: Any) -> set[str]:
    NOTED.clear()
    train_network(method, network_setup(schedule=((0, 1), (0, 1))), vectorised=False)
    return set(NOTED)


def ours(registry: Any) -> list[str]:
    return sorted(id for id, cls in registry.items() if cls.__module__.startswith("flatfed."))


@pytest.fixture(scope="module")
def of_optimisers() -> dict[str, set[str]]:
    registry = ClientOptimiser.registry
    return {id: noted(SpyMethod(client_opt=registry.make(id))) for id in ours(registry)}


def test_some_optimisers_note_something(of_optimisers: dict[str, set[str]]) -> None:
    assert of_optimisers["vasso"] and of_optimisers["fsam"] and not of_optimisers["sgd"]


TAKING = [id for id in ours(Algorithm.registry) if "client_opt" in parameters(Algorithm.registry.find(id))]


@pytest.mark.parametrize("id", TAKING)
def test_no_method_notes_under_the_name_of_an_optimiser(id: str, of_optimisers: dict[str, set[str]]) -> None:
    names = noted(ff.make(id, client_opt=SpyOptimiser()))
    assert names or id not in ("fedadamw", "fedgloss"), "the spy sees what they note"
    shared = {optimiser: names & notes for optimiser, notes in of_optimisers.items() if names & notes}
    assert not shared
