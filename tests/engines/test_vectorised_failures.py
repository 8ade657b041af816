"""What goes wrong in lockstep is told, and nothing of the caller is changed."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from engines.bench import Deadly, alive, eventually, is_worker
from engines.vectorised import COHORTS, Noisy, examples, network, play, recorded, same, small
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.model import vectorising as batching
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rounds may go in lockstep too, so that small tests can choose it by themselves."""
    monkeypatch.setattr(batching, "FEWEST_CLIENTS", 1)


# --- what goes wrong --------------------------------------------------------------------------------------

VICTIM = 6


def marked(**changes: Any) -> ff.Task:
    """The small task; the victim's inputs can be told from all others."""
    clients = examples()
    clients[VICTIM] = (clients[VICTIM][0] + 100, clients[VICTIM][1])
    return small(**{"clients": clients, **changes})


class Marking(nn.Module):
    """The network; a third output says whether the batch is the victim's."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = network()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.inside(x / 10), x.mean(1)


def first_output(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs[0], targets)


def raising_loss(outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
    """Cross-entropy that cannot stand the victim's inputs."""
    if bool((outputs[1] > 50).any()):
        raise ZeroDivisionError("this is too much")
    return first_output(outputs, targets)


LATE = ff.Replay([[0, 1, 2], [3, 4, 5, 7], [1, 5, 6, 7], [0, 6], [2, 3]])  # the victim is first asked in round 2


def failing(loss: Any = raising_loss) -> ff.Task:
    return marked(model=Marking(), loss=loss, test=None)


def late(task: ff.Task, **changes: Any) -> ff.Run:
    return play(task, **{"sampling": LATE, "rounds": 5, "checkpoint_every": 1, **changes})


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_names_its_client_and_leaves_a_run_that_goes_on(workers: int, tmp_path: Path) -> None:
    with pytest.raises(ff.EngineError, match=rf"client {VICTIM} failed: ZeroDivisionError: this is too much"):
        late(failing(), workers=workers, out=tmp_path / "run")
    status = RunDirectory.open(tmp_path / "run").status()
    assert status["status"] == "failed"
    assert f"client {VICTIM} failed" in status["reason"]
    assert recorded(tmp_path / "run") is True
    played: list[int] = []
    run = ff.resume(tmp_path / "run", task=failing(first_output), on_round=lambda row: played.append(row["round"]))
    assert played == [2, 3, 4], "the rounds before the failure were not kept"
    same(run, late(failing(first_output)))


class Fragile(ff.Algorithm):
    """A method that fails for one client, in the middle of its steps."""

    place: ClassVar[str] = "direction"

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        if self.place == "direction" and client.id == VICTIM and client.step == 2:
            raise ZeroDivisionError("this is too much")
        return gradient

    def gradient(self, client: Client) -> Tensor:
        def plus(outputs: Tensor) -> Tensor:
            if client.id == VICTIM and client.step == 2:
                raise ZeroDivisionError("this is too much")
            return outputs.sum() * 0

        return client.gradient(plus=plus if self.place == "plus" else None)


class Broken(Noisy):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        raise ZeroDivisionError("this is too much")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("place", ["direction", "plus", "data"])
def test_an_exception_elsewhere_names_its_client_too(place: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fragile, "place", place)
    clients: list[Any] = examples()
    if place == "data":
        clients[VICTIM] = Broken(*clients[VICTIM])
    with pytest.raises(ff.EngineError, match=rf"client {VICTIM} failed: ZeroDivisionError: this is too much"):
        play(small(clients=clients), Fragile(), workers=workers)
    same(play(method=ff.make("fedavg"), workers=workers), play(method=ff.make("fedavg")))


def test_of_several_that_fail_one_is_named() -> None:
    class Hopeless(ff.Algorithm):
        def direction(self, client: Client, gradient: Tensor) -> Tensor:
            if client.id in (3, 4, VICTIM):
                raise ZeroDivisionError("this is too much")
            return gradient

    with pytest.raises(ff.EngineError, match=f"client (3|4|{VICTIM}) failed: ZeroDivisionError"):
        play(method=Hopeless())


class Tidy(ff.Algorithm):
    """Takes note of who begins and who has cleaned up; one client fails."""

    begun: ClassVar[list[int]] = []
    ended: ClassVar[list[int]] = []

    def local(self, client: Client) -> Message:
        self.begun.append(client.id)
        try:
            return super().local(client)
        finally:
            self.ended.append(client.id)

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        if client.id == VICTIM and client.step == 1:
            raise ZeroDivisionError("this is too much")
        return gradient


def test_after_a_failure_nobody_is_left_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other clients clean up is done when the error is told, not when its traceback is dropped."""
    monkeypatch.setattr(Tidy, "begun", [])
    monkeypatch.setattr(Tidy, "ended", [])
    with pytest.raises(ff.EngineError, match=f"client {VICTIM} failed") as caught:
        play(method=Tidy())
    assert len(Tidy.begun) > 1
    assert sorted(Tidy.ended) == sorted(Tidy.begun), caught.value


@pytest.fixture
def _deadly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "markers").mkdir()
    monkeypatch.setattr(Deadly, "victims", frozenset({VICTIM, 2}))
    monkeypatch.setattr(Deadly, "markers", tmp_path / "markers")


@pytest.mark.usefixtures("_deadly")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_killed_in_the_middle_of_a_group_is_replaced(workers: int, tmp_path: Path) -> None:
    found = play(method=Deadly(), workers=workers)
    assert len(list((tmp_path / "markers").iterdir())) == 2, "the workers did not die as they should have"
    same(found, play(method=ff.make("fedsmoo")))


@pytest.mark.usefixtures("_deadly")
def test_a_client_that_always_kills_its_worker_ends_the_run_with_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadly, "times", 1000)
    monkeypatch.setattr(Deadly, "victims", frozenset({VICTIM}))
    with pytest.raises(ff.EngineError, match=rf"clients?\b.*\b{VICTIM}\b.*ended its worker process 3 times"):
        play(method=Deadly(), workers=2, sampling=LATE, rounds=5)


def test_workers_killed_from_outside_between_rounds_are_replaced() -> None:
    settings = Settings(rounds=3, lr=0.1, batch_size=3, seed=3, vectorised=True)
    plan = Plan(small(), ff.make("scaffold"), settings, ff.Replay(list(COHORTS)))
    engine = ProcessEngine(plan.task, plan.algorithm, plan.settings, workers=2)
    federation, rows = plan.federation(engine), []
    try:
        for row in federation.rounds():
            rows.append(row)
            for pid in filter(alive, engine.pids):
                os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid: not alive(pid), f"the end of worker {pid}")
    finally:
        engine.close()
    values = {"rounds": 3, "sampling": ff.Replay(list(COHORTS)), "lr": 0.1, "batch_size": 3, "seed": 3}
    same(ff.Run(federation, rows, None), ff.train(small(), ff.make("scaffold"), vectorised=True, workers=0, **values))


# --- what the caller has ----------------------------------------------------------------------------------


def global_state() -> list[Any]:
    state = np.random.get_state()  # noqa: NPY002
    return [torch.get_rng_state().tolist(), random.getstate(), state[1].tolist(), torch.get_num_threads()]


@pytest.mark.parametrize("vectorised", [True, None])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_callers_generators_neither_matter_nor_move(workers: int, vectorised: bool | None) -> None:
    task, runs = small(clients=[Noisy(*pair) for pair in examples()]), []
    with torch.random.fork_rng():
        for seed in (1, 2):
            torch.manual_seed(seed)
            random.seed(seed)
            before = global_state()
            runs.append(play(task, workers=workers, vectorised=vectorised))
            assert global_state() == before
    same(*runs)


def test_a_failure_leaves_the_callers_generators_and_modes_too() -> None:
    before = global_state()
    with pytest.raises(ff.EngineError):
        late(failing())
    assert global_state() == before
    assert torch.is_grad_enabled()
    assert not is_worker()
