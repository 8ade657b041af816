"""Workers that die and user code that fails: replaced and run again, or the run stops and says why."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import (
    CASES,
    VICTIM,
    Case,
    Deadly,
    alive,
    assert_same,
    bits,
    deadly,
    deadly_loss,
    digits,
    eventually,
    raising_loss,
    tensors_task,
    worker_pids,
)
from engines.table import ENGINES, Row, on_engines
from flatfed.core.method.engine import Job
from flatfed.core.round.federation import Federation
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import Run
from flatfed.runs.directory import RunDirectory

COHORTS = [[0, 1], [0, 3], [1, 2, 3], [0, 2], [1, 3]]  # the victim is first asked in round 2
FIRST_ASKED = 2


def job(federation: Federation, client: int) -> Job:
    return Job(client, 0, 0, 0.05, federation.clients.read(client))


def settings(**changes: Any) -> dict[str, Any]:
    return {"rounds": 5, "sampling": ff.Replay(COHORTS), "lr": 0.1, "batch_size": 3, "vectorised": False, **changes}


def undisturbed() -> dict[str, Any]:
    return bits(ff.train(tensors_task(), ff.make("fedsmoo"), workers=0, **settings()), 4)


@on_engines(needs="replaces_workers", without="starts_slowly", workers=lambda row: [1, 2], times=lambda row: [1, 2])
def test_a_worker_killed_in_the_middle_of_a_client_is_replaced_and_the_client_run_again(
    row: Row, workers: int, times: int, tmp_path: Path
) -> None:
    """Clients take their worker down in the middle of their local steps, once or twice."""
    method = deadly(range(12), tmp_path, times)
    expected = CASES["fedsmoo"].play(ENGINES["in-process"].start)
    found = Case(digits, method).play(lambda plan: row.start(plan, workers))
    assert len(list(tmp_path.iterdir())) >= 5 * times, "the workers did not die as they should have"
    assert_same(found, expected)


KILLED = {"first": slice(0, 1), "others": slice(1, 3), "all": slice(0, 3)}


@on_engines(needs="replaces_workers", without="starts_slowly", killed=lambda row: KILLED)
def test_workers_killed_from_outside_between_rounds_are_replaced(row: Row, killed: str) -> None:
    case = CASES["scaffold+asam+swa, BatchNorm"]
    expected = case.play(ENGINES["in-process"].start)
    plan = case.plan()
    engine = row.start(plan, workers=3)
    federation, rows = plan.federation(engine), []
    try:
        for entry in federation.rounds():
            rows.append(entry)
            for pid in filter(
                alive, worker_pids(engine)[KILLED[killed]]
            ):  # two rows may come at once, with no work between them
                os.kill(pid, signal.SIGKILL)
                eventually(lambda pid=pid: not alive(pid), f"the end of worker {pid}")
    finally:
        engine.close()
    assert_same(bits(Run(federation, rows, None), plan.task.population), expected)


@on_engines(needs="replaces_workers", workers=lambda row: [2] if row.starts_slowly else [1, 3])
def test_a_client_that_always_kills_its_worker_stops_the_run(row: Row, workers: int, tmp_path: Path) -> None:
    where = {"engine": row.config(workers), "out": tmp_path / "run"}
    with pytest.raises(ff.EngineError, match=f"client {VICTIM} ended its worker process 3 times") as caught:
        ff.train(tensors_task(deadly_loss), ff.make("fedsmoo"), **where, **settings())
    assert "flatfed resume" in str(caught.value)
    status = RunDirectory.open(tmp_path / "run").status()
    assert status["status"] == "failed"
    assert f"client {VICTIM} " in status["reason"]
    rows = [row["round"] for row in RunDirectory.open(tmp_path / "run").rows]
    assert rows == list(range(FIRST_ASKED))


def test_a_failed_run_can_be_resumed_with_a_repaired_task(tmp_path: Path) -> None:
    with pytest.raises(ff.EngineError):
        ff.train(tensors_task(deadly_loss), ff.make("fedsmoo"), workers=2, out=tmp_path / "run", **settings())
    played: list[int] = []
    run = ff.resume(tmp_path / "run", task=tensors_task(), on_round=lambda row: played.append(row["round"]))
    assert played == [2, 3, 4], "the rounds before the failure were not kept"
    assert_same(bits(run, 4), undisturbed())
    assert RunDirectory.open(tmp_path / "run").status()["status"] == "finished"


def test_a_failed_run_can_be_resumed_with_a_repaired_algorithm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "markers").mkdir()
    monkeypatch.setitem(ff.Algorithm.registry, "deadly-of-a-test", Deadly)
    monkeypatch.setattr(Deadly, "id", "deadly-of-a-test")
    monkeypatch.setattr(Deadly, "victims", frozenset({VICTIM}))
    monkeypatch.setattr(Deadly, "markers", tmp_path / "markers")
    monkeypatch.setattr(Deadly, "times", 1000)
    with pytest.raises(ff.EngineError, match=f"client {VICTIM} "):
        ff.train(tensors_task(), Deadly(), workers=2, out=tmp_path / "run", **settings())
    monkeypatch.setattr(Deadly, "times", 0)
    assert_same(bits(ff.resume(tmp_path / "run"), 4), undisturbed())


@on_engines(without="starts_slowly")
def test_an_exception_names_the_client_and_leaves_a_run_that_goes_on(row: Row, tmp_path: Path) -> None:
    changes = {"engine": row.config(1), "out": tmp_path / "run", "checkpoint_every": 1}
    with pytest.raises(ff.EngineError, match=rf"client {VICTIM}\b.*ZeroDivisionError: this target is too much"):
        ff.train(tensors_task(raising_loss), ff.make("fedsmoo"), **settings(**changes))
    status = RunDirectory.open(tmp_path / "run").status()
    assert status["status"] == "failed"
    assert "this target is too much" in status["reason"]
    played: list[int] = []
    where = {"task": tensors_task(), "workers": 0}
    run = ff.resume(tmp_path / "run", **where, on_round=lambda row: played.append(row["round"]))
    assert played == [2, 3, 4], "the rounds before the failure were not kept"
    assert_same(bits(run, 4), undisturbed())


@on_engines(without="starts_slowly")
def test_an_exchange_abandoned_in_the_middle_does_not_reach_the_next_one(row: Row) -> None:
    """Answers that were still to come must not be taken for answers to later questions."""
    plan: Plan = CASES["fedsmoo"].plan()
    engine, oracle = row.start(plan), ENGINES["in-process"].start(plan)
    federation = plan.federation(engine)
    try:
        asked = plan.algorithm.broadcast(federation.server)
        jobs = [job(federation, client) for client in (4, 7, 1, 9)]
        replies = engine.exchange(asked, jobs)
        next(replies)
        replies.close()  # type: ignore[attr-defined]
        later = [job(federation, client) for client in (2, 3, 5)]
        found = {reply.client: reply for reply in engine.exchange(asked, later)}
        for expected in oracle.exchange(asked, [job(federation, client) for client in (2, 3, 5)]):
            reply = found.pop(expected.client)
            assert reply.message.to_bytes() == expected.message.to_bytes()
            assert (reply.loss, reply.steps, reply.samples) == (expected.loss, expected.steps, expected.samples)
        assert not found
    finally:
        engine.close()
