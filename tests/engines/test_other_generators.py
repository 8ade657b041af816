"""Draws from the global generators of NumPy and Python, and rejected replies: the same on any number of workers."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from engines.bench import assert_same, bits
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.model.vectorising import why_not_vectorised
from flatfed.core.randomness import global_state

CLIENTS = 4


def drawn() -> float:
    """A number from both generators."""
    return float(np.random.rand()) + random.random() + float(np.random.randn())  # noqa: NPY002


class Noisy(nn.Module):
    """A model whose passes draw from the generators of NumPy and Python, in tests too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs * (1 + 0.1 * drawn()))


class Jittered(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Examples that are moved by what NumPy and Python draw; client k has some more than client k - 1."""

    def __init__(self, client: int) -> None:
        generator = torch.Generator().manual_seed(client)
        self.inputs = torch.randn(8 + 4 * client, 5, generator=generator)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index] + 0.1 * drawn(), torch.tensor(index % 3)


def noisy_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs * (1 + 0.01 * drawn()), targets)


def noisy_task() -> ff.Task:
    clients = [Jittered(client) for client in range(CLIENTS)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Noisy()
    return ff.Task(model=model, clients=clients, test=Jittered(9), loss=noisy_loss)


def train(workers: int, out: Path | None = None, rounds: int = 3, **changes: Any) -> ff.Run:
    usual: dict[str, Any] = {
        "lr": 0.1,
        "batch_size": 6,
        "sampling": ff.Uniform(3),
        "checkpoint_every": 1,
        "evaluate_every": 1,
    }
    usual |= {"vectorised": False} | changes
    return ff.train(noisy_task(), ff.make("fedsam"), rounds=rounds, workers=workers, out=out, **usual)


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return bits(train(0), CLIENTS)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_draws_of_models_losses_and_data_sets_are_keyed(workers: int, reference: dict[str, Any]) -> None:
    random.seed(99 + workers)
    np.random.seed(99 + workers)  # noqa: NPY002
    before = global_state()
    assert_same(bits(train(workers), CLIENTS), reference)
    # What belongs to nobody is as it was, though models drew from it.
    assert global_state() == before


def test_a_resumed_run_draws_the_same(tmp_path: Path, reference: dict[str, Any]) -> None:
    def stop(row: dict[str, Any]) -> None:
        drawn()
        if row["round"] == 1:
            raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError):
        train(0, tmp_path / "run", on_round=stop)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert_same(bits(ff.resume(tmp_path / "run", task=noisy_task(), workers=3), CLIENTS), reference)


def plain_task(**changes: Any) -> ff.Task:
    """A task that draws nothing, but for what is changed."""
    usual: dict[str, Any] = {"clients": [(torch.randn(8, 5), torch.arange(8) % 3)] * CLIENTS, "test": None}
    return ff.Task(**({"model": nn.Linear(5, 3)} | usual | changes))


def moved(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.1 * drawn()


def moved_together(inputs: Tensor, targets: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return moved(inputs, generator), targets


DRAWING: dict[str, dict[str, Any]] = {
    "model": {"model": Noisy()},
    "loss": {"loss": noisy_loss},
    "augmentation": {"augment": moved},
    "batch transform": {"batch_transform": moved_together},
}


@pytest.mark.parametrize("what", DRAWING)
def test_clients_that_draw_are_not_vectorised(what: str) -> None:
    settings = Settings(rounds=1, lr=0.1, batch_size=4)
    assert why_not_vectorised(plain_task(), settings) == ""
    assert "global random generator" in why_not_vectorised(plain_task(**DRAWING[what]), settings)


class Spoiled(ff.FedAvg):
    """FedAvg whose clients but the first reply with something that is not finite, each in its own way."""

    def finish(self, client: Client) -> Message:
        reply = super().finish(client)
        if client.id == 0:
            return reply
        return Message(w=reply.w * math.nan) if client.id % 2 else Message(w=reply.w[:-1])


@pytest.mark.parametrize("workers", [0, 3])
def test_rejected_replies_stand_in_the_order_of_clients(workers: int) -> None:
    """The clients with the most examples, which are asked first, are those with the highest numbers."""
    run = ff.train(
        noisy_task(), Spoiled(), rounds=2, sampling=ff.Uniform(CLIENTS), workers=workers, lr=0.1, vectorised=False
    )
    for row in run.history:
        assert [entry["client"] for entry in row["rejected"]] == [1, 2, 3]
        assert row["clients"] == [0]
