"""A client that hangs costs its time and no more: it is rejected by name, and the others go on."""

from __future__ import annotations

import copy
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import flatfed as ff
from engines.bench import assert_same, bits, eventually, is_worker, tensors_task
from engines.table import Row, on_engines
from flatfed.engines.in_process import OutOfTime, within
from flatfed.reports.results.result import identity
from flatfed.runs.directory import RunDirectory

CLIENTS, SLEEPER, LOOPER = 4, 2, 1
SOUND = [0, 3]
AMPLE = 5.0
"""Seconds for clients that need milliseconds; those that hang take all of them."""
SHORT = 0.2
"""Seconds where every client that is asked hangs."""


def sleepy_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy that never comes to an end for the sleeper."""
    while bool((targets == SLEEPER).any()):
        time.sleep(60)
    return functional.cross_entropy(outputs, targets)


class Stubborn(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """A data set that tries again and again, whatever happens."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        while True:
            try:
                self._broken()
            except Exception:
                continue

    def _broken(self) -> None:
        time.sleep(0.001)
        raise OSError("not there")


def hanging_task() -> ff.Task:
    """One client hangs in its loss and one in its data."""
    task = tensors_task(sleepy_loss, CLIENTS)
    clients: list[Any] = list(task.clients)
    clients[LOOPER] = Stubborn()
    return replace(task, clients=clients)


def train(task: ff.Task, cohorts: list[list[int]], **changes: Any) -> ff.Run:
    settings = {"rounds": len(cohorts), "sampling": ff.Replay(cohorts), "lr": 0.1, "batch_size": 3}
    settings |= {"vectorised": False, "evaluate_every": 1, "workers": 0, **changes}
    return ff.train(task, ff.make("scaffold"), **settings)


def states(run: ff.Run) -> dict[str, Any]:
    found = bits(run, CLIENTS)
    return {name: found[name] for name in found if name != "history"}


def reasons(run: ff.Run, round: int) -> list[tuple[int, str]]:
    return [(entry["client"], entry["reason"]) for entry in run.history[round].get("rejected", ())]


def no_reply(client: int, seconds: float) -> tuple[int, str]:
    return client, f"no reply within {seconds:g} s"


@on_engines(needs="bounds_time", without="starts_slowly")
def test_clients_that_hang_are_rejected_and_leave_no_trace(row: Row) -> None:
    where = {"client_timeout": row.ample, "engine": row.config(2)}
    hanging = [SLEEPER] if row.starts_slowly else [LOOPER, SLEEPER]
    run = train(hanging_task(), [SOUND, sorted(SOUND + hanging), SOUND], **where)
    assert reasons(run, 1) == [no_reply(client, row.ample) for client in hanging]
    expected = train(tensors_task(clients=CLIENTS), [SOUND] * 3)
    assert states(run) == states(expected)
    for entry, plain in zip(run.history, expected.history, strict=True):
        # Evaluated in the gaps of the round with the hanging workers, too.
        assert [entry[name] for name in ("clients", "test_loss", "train_loss", "bytes_up", "backprops")] == [
            plain[name] for name in ("clients", "test_loss", "train_loss", "bytes_up", "backprops")
        ]


@on_engines(needs="bounds_time", without="starts_slowly")
def test_after_the_time_of_an_exchange_all_that_have_not_answered_are_given_up(row: Row) -> None:
    """One worker hangs, another does the rest; in this process all that come after the one that hangs are lost."""
    where = {"exchange_timeout": row.ample, "engine": row.config(2)}
    run = train(tensors_task(sleepy_loss, CLIENTS), [SOUND, [0, SLEEPER, 3], SOUND], **where)
    rejected = dict(reasons(run, 1))
    assert rejected[SLEEPER] == f"no reply within {row.ample:g} s"
    taken = run.history[1]["clients"]
    assert sorted([*taken, *rejected]) == [0, SLEEPER, 3]
    assert [client for client, _ in reasons(run, 0) + reasons(run, 2)] == []
    if row.has_gaps:
        assert taken == SOUND
        assert states(run) == states(train(tensors_task(clients=CLIENTS), [SOUND] * 3))


def test_clients_that_were_not_asked_in_the_time_of_an_exchange_have_not_answered() -> None:
    task = tensors_task(sleepy_loss, CLIENTS)
    run = train(task, [[SLEEPER, 3]], exchange_timeout=SHORT, retries=0)
    assert reasons(run, 0) == [no_reply(SLEEPER, SHORT), (3, "no reply")]
    assert (run.status, run.history[0]["clients"]) == ("stopped", [])


def test_of_a_vectorised_group_only_the_client_that_hangs_is_rejected() -> None:
    changes = {"vectorised": True, "client_timeout": AMPLE}
    task = tensors_task(sleepy_loss, CLIENTS)
    here, there = (train(task, [[0, SLEEPER]], workers=workers, **changes) for workers in (0, 1))
    assert reasons(here, 0) == [no_reply(SLEEPER, AMPLE)]
    assert_same(bits(there, CLIENTS), bits(here, CLIENTS))
    assert states(here) == states(train(task, [[0]]))


@pytest.mark.parametrize("workers", [0, 1])
def test_without_enough_replies_the_round_is_tried_again_and_the_run_stops(workers: int, tmp_path: Path) -> None:
    changes = {"client_timeout": SHORT, "workers": workers, "retries": 1, "out": tmp_path / "run"}
    run = train(tensors_task(sleepy_loss, CLIENTS), [[SLEEPER]], **changes)
    assert run.status == "stopped"
    assert f"client {SLEEPER}: no reply within 0.2 s" in run.reason
    assert reasons(run, 0) == [no_reply(SLEEPER, SHORT)] * 2
    assert run.history[0]["attempts"] == 2
    assert RunDirectory.open(tmp_path / "run").config["settings"]["client_timeout"] == SHORT


class SlowToCopy(nn.Module):
    """A network of which a worker needs longer to make its copy than a client may take."""

    def __init__(self, inside: nn.Module) -> None:
        super().__init__()
        self.inside = inside

    def __deepcopy__(self, memo: dict[int, Any]) -> SlowToCopy:
        if is_worker():
            time.sleep(AMPLE + 0.5)
        return SlowToCopy(copy.deepcopy(self.inside, memo))

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.inside(inputs)
        return output


def test_the_time_of_a_worker_to_get_ready_is_not_the_clients() -> None:
    task = tensors_task(clients=CLIENTS)
    slow = replace(task, model=SlowToCopy(task.model))
    run = train(slow, [[0]], client_timeout=AMPLE, workers=1)
    assert "rejected" not in run.history[0]


@pytest.fixture
def rings() -> Iterator[list[int]]:
    """A handler of the user's, as it hears its alarm."""
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    yield heard
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("cohort", [[SLEEPER], [0]], ids=["hanging", "sound"])
def test_the_users_own_alarm_is_put_back(cohort: list[int], rings: list[int]) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 1000.0, 7.0)
    timeout = SHORT if cohort == [SLEEPER] else 600.0
    train(tensors_task(sleepy_loss, CLIENTS), [cohort], client_timeout=timeout, retries=0)
    assert signal.getsignal(signal.SIGALRM) is handler
    left, interval = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left < 1000
    assert interval == 7.0
    assert not rings


def test_the_users_alarm_that_was_due_meanwhile_rings_afterwards(rings: list[int]) -> None:
    signal.setitimer(signal.ITIMER_REAL, SHORT / 2)
    with pytest.raises(OutOfTime):
        within(SHORT, lambda: time.sleep(60))
    eventually(lambda: rings, "the user's alarm")


def test_what_work_has_changed_for_itself_is_put_back() -> None:
    def work() -> None:
        torch.set_grad_enabled(False)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        try:
            time.sleep(60)
        except BaseException as error:
            raise RuntimeError("cut short") from error

    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    with pytest.raises(OutOfTime):
        within(SHORT, work)
    assert torch.is_grad_enabled()
    assert np.array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert random.getstate() == before[1]


def test_an_error_in_time_is_the_works_own() -> None:
    def work() -> None:
        raise ZeroDivisionError("this is too much")

    with pytest.raises(ZeroDivisionError, match="this is too much"):
        within(600.0, work)


def in_a_thread(work: Any) -> Any:
    """Return what the work returns or raises in another thread."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bound_longer_than_any_timer_is_none(workers: int) -> None:
    task = tensors_task(clients=CLIENTS)
    run = train(task, [[0, 1]], client_timeout=1e300, workers=workers)
    assert reasons(run, 0) == []
    assert states(run) == states(train(task, [[0, 1]]))
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_in_another_thread_it_needs_workers(tmp_path: Path) -> None:
    task = tensors_task(clients=CLIENTS)
    changes = {"client_timeout": 600.0, "out": tmp_path / "run"}
    refused = in_a_thread(lambda: train(task, [[0]], workers=0, **changes))
    assert isinstance(refused, ff.ConfigError)
    assert "client_timeout" in str(refused)
    assert "use workers=1 or more" in str(refused)
    assert not (tmp_path / "run").exists()
    run = in_a_thread(lambda: train(task, [[0]], workers=1, **changes))
    assert states(run) == states(train(task, [[0]]))


def test_it_makes_no_other_setting_of_a_run(tmp_path: Path) -> None:
    """Runs with and without it are seeds of one thing, and a record from before it is read as without."""
    train(tensors_task(clients=CLIENTS), [[0]], client_timeout=600.0, out=tmp_path / "run")
    config = RunDirectory.open(tmp_path / "run").config
    settings = {name: value for name, value in config["settings"].items() if name != "client_timeout"}
    assert identity(config) == identity(config | {"settings": settings})
