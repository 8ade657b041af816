"""What an engine is handed in an exchange is what is sent and counted; what came before, the clients hold."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import flatfed as ff
from engines.bench import assert_same, is_worker
from engines.table import Row, on_engines
from flatfed.core.method.algorithm import Algorithm, Ask
from flatfed.core.method.client import Client
from flatfed.core.method.engine import Engine, Held, Job, Jobs, Reply, together
from flatfed.core.method.messages import SCALAR_BYTES, Message
from flatfed.core.method.server import Server
from flatfed.core.method.state import State
from flatfed.core.method.vectors import norm
from flatfed.core.round.exchange import ENVELOPE_DOWN, ENVELOPE_UP, Courier, Tally
from flatfed.core.round.federation import Federation
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.experiments.planning.plan import Plan
from methods.wire import COHORTS, METHODS, everything, plan, rich

TWICE = ["mime", "naivefedgloss"]


class Recorder:
    """An engine that notes what it is handed and what it hands back: bytes of each exchange, down and up."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.gaps = engine, engine.gaps
        self.bytes: list[tuple[int, int]] = []
        self.names: list[tuple[set[str], set[str]]] = []

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        asked = list(jobs)
        down = sum(message.nbytes + job.personal.nbytes + ENVELOPE_DOWN for job in asked)
        replies = list(self.engine.exchange(message, asked))
        up = sum(r.message.nbytes + SCALAR_BYTES * len(r.watch) + ENVELOPE_UP for r in replies)
        self.bytes.append((down, up))
        self.names.append((set(message.contents), {name for job in asked for name in job.personal.contents}))
        yield from replies

    def compute(self, *work: Any) -> Any:
        return self.engine.compute(*work)

    def close(self) -> None:
        self.engine.close()


def in_process(plan: Plan) -> Engine:
    return InProcessEngine(plan.task, plan.algorithm, plan.settings)


def processes(workers: int) -> Callable[[Plan], Engine]:
    return lambda plan: ProcessEngine(plan.task, plan.algorithm, plan.settings, workers)


def play_round(federation: Federation, cohort: list[int]) -> list[tuple[int, int]]:
    """Play one round by hand and return the bytes that each of its exchanges was counted, down and up."""
    tally, counted = Tally(), []
    federation.begin_round()
    courier = Courier(federation, cohort, tally)

    def ask(message: Message, expect: tuple[str, ...] | None = None) -> Any:
        before = tally.bytes_down, tally.bytes_up
        replies = courier(message, expect)
        counted.append((tally.bytes_down - before[0], tally.bytes_up - before[1]))
        return replies

    federation.method.round(federation.server, ask)
    federation.round += 1
    return counted


@pytest.mark.parametrize("task", ["plain", "BatchNorm"])
@pytest.mark.parametrize("method", METHODS)
def test_every_exchange_of_every_method_is_counted_as_it_is_handed_over(method: str, task: str) -> None:
    asked = plan(rich(method), task)
    recorder = Recorder(in_process(asked))
    federation = asked.federation(recorder)
    cohorts = [(0,)] * 2 if asked.algorithm.pooled else COHORTS[:2]
    counted = [exchange for cohort in cohorts for exchange in play_round(federation, list(cohort))]
    assert counted == recorder.bytes
    assert len(counted) == (4 if method in TWICE else 2)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("method", [*TWICE, "fedwmsam"])
def test_rows_have_the_bytes_that_worker_processes_are_handed(method: str, workers: int) -> None:
    asked = plan(ff.make(method), "BatchNorm")
    with closing(Recorder(processes(workers)(asked))) as recorder:
        rows = list(asked.federation(recorder).rounds())
    assert [sum(row[name] for row in rows) for name in ("bytes_down", "bytes_up")] == [
        sum(sizes) for sizes in zip(*recorder.bytes, strict=True)
    ]


def test_mime_hands_over_three_vectors_a_round() -> None:
    asked = plan(ff.make("mime"), "plain")
    recorder = Recorder(in_process(asked))
    list(asked.federation(recorder).rounds())
    assert recorder.names == [({"w"}, set()), ({"c", "momentum"}, set())] * asked.settings.rounds


# --- what a client holds ------------------------------------------------------------------------------------


class Telling(Algorithm):
    """Clients tell what they have received: each vector's norm, and each number."""

    def local(self, client: Client) -> Message:
        received = client.received
        client.watch.update({name: norm(vector) for name, vector in received.vectors.items()})
        client.watch.update(received.scalars)
        return Message(w=client.w)


class OncePersonal(Telling):
    """Two exchanges, the first with a personal part; the second renews one vector and one number."""

    def round(self, server: Server, ask: Ask) -> None:
        self.seen.clear()
        server.watch["second"] = 0.0
        first = ask(Message(w=server.w, a=torch.ones(len(server.w)), n=1.0))
        server.watch["second"] = 1.0
        second = ask(Message(a=2 * torch.ones(len(server.w)), n=2.0))
        self.seen.extend({r.client: dict(r.watch) for r in replies} for replies in (first, second))

    def personal(self, server: Server, client: int) -> Message:
        return Message() if server.watch["second"] else Message(mine=torch.full((3,), float(client)))

    seen: ClassVar[list[dict[int, dict[str, float]]]] = []


@on_engines(without="starts_slowly", workers=lambda row: [1, 2])
def test_personal_parts_are_for_their_exchange_and_the_later_of_two_vectors_wins(row: Row, workers: int) -> None:
    asked = plan(OncePersonal(), "plain")
    with closing(Recorder(row.start(asked, workers))) as recorder:
        federation = asked.federation(recorder)
        counted = play_round(federation, [0, 2, 3])
    assert counted == recorder.bytes
    assert recorder.names == [({"w", "a", "n"}, {"mine"}), ({"a", "n"}, set())]
    length, w = len(federation.server.w) ** 0.5, norm(federation.server.w)
    first, second = OncePersonal.seen
    for client in (0, 2, 3):
        mine = {"mine": pytest.approx(3**0.5 * client)}
        assert first[client] == {"w": w, "a": pytest.approx(length), "n": 1.0} | mine
        assert second[client] == {"w": w, "a": pytest.approx(2 * length), "n": 2.0}


def told(engine: Engine, message: Message, exchange: int, clients: tuple[int, ...], round: int = 0) -> Any:
    jobs = [Job(client, round, exchange, 0.1, State({})) for client in clients]
    return {reply.client: dict(reply.watch) for reply in engine.exchange(message, jobs)}


def test_a_worker_without_a_job_in_the_first_exchange_knows_what_it_said() -> None:
    asked = plan(Telling(), "plain")
    w = torch.ones(asked.task.layout().size)
    with closing(processes(3)(asked)) as engine:
        told(engine, Message(w=w), 0, (0,))  # the other two workers have nothing to do
        found = told(engine, Message(a=2 * w, n=3.0), 1, (0, 1, 2, 3))
        assert found == {client: {"w": norm(w), "a": norm(2 * w), "n": 3.0} for client in range(4)}


@on_engines(without="starts_slowly")
def test_a_new_attempt_begins_anew_and_a_later_exchange_cannot_come_first(row: Row) -> None:
    asked = plan(Telling(), "plain")
    w = torch.ones(asked.task.layout().size)
    with closing(row.start(asked, workers=1)) as engine:
        told(engine, Message(w=w), 0, (0, 1))
        told(engine, Message(a=w, n=1.0), 1, (0, 1))
        assert told(engine, Message(w=2 * w), 0, (2,)) == {2: {"w": norm(2 * w)}}
        again = {"w": norm(2 * w), "n": 5.0}
        assert told(engine, Message(n=5.0), 1, (2,)) == told(engine, Message(n=5.0), 1, (2,)) == {2: again}
        with pytest.raises(ff.EngineError, match="exchange 1 of round 2 came without"):
            told(engine, Message(n=5.0), 1, (2,), round=1)
        with pytest.raises(ff.EngineError, match="exchange 3 of round 1 came without"):
            told(engine, Message(n=5.0), 3, (2,))


def test_what_is_held() -> None:
    held = Held[str]()
    assert held.receive(0, 0, "a") == ["a"]
    assert held.receive(0, 1, "b") == ["a", "b"]
    assert held.receive(0, 1, "c") == ["a", "c"], "an exchange is held once"
    assert held.receive(0, 2, "d") == ["a", "c", "d"]
    assert held.receive(0, 0, "e") == ["e"]
    with pytest.raises(ff.EngineError):
        held.receive(0, 2, "f")
    assert held.receive(1, 0, "g") == ["g"]
    read = together([Message(w=torch.zeros(2), n=1.0), Message(v=torch.ones(1)), Message(w=torch.ones(2))])
    assert (read.w.tolist(), read.v.tolist(), read.scalars) == ([1.0, 1.0], [1.0], {"n": 1.0})


def test_nothing_is_written_twice_into_shared_memory() -> None:
    asked = plan(ff.make("mime"), "plain")
    vector = -(-asked.task.layout().size * 4 // 64) * 64
    with closing(processes(2)(asked)) as engine:
        federation = asked.federation(engine)
        for cohort in COHORTS[:3]:
            play_round(federation, list(cohort))
            files = {file.name.split("-")[0]: file.stat().st_size for file in engine._pool.directory.glob("down*")}
            assert files == {"down0": vector, "down1": 2 * vector}


# --- workers that die in the second exchange ------------------------------------------------------------------


class Dying(Algorithm):
    """Each client takes its worker down once, in the second exchange of its first round."""

    markers: ClassVar[Path] = Path()

    def direction(self, client: Client, gradient: Tensor) -> Tensor:
        mark = self.markers / str(client.id)
        if client.exchange == 1 and is_worker() and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().direction(client, gradient)


def dying(id: str) -> Algorithm:
    """A method whose clients die, with the id and the numbers of the one whose clients do not."""
    method = Algorithm.registry[id]
    return type(f"Dying{method.__name__}", (Dying, method), {"id": id})()


def played(method: Algorithm, make: Callable[[Plan], Engine]) -> dict[str, Any]:
    asked = plan(method, "BatchNorm", "swa", rounds=4)
    with closing(make(asked)) as engine:
        federation = asked.federation(engine)
        return everything(ff.Run(federation, list(federation.rounds()), None))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("method", TWICE)
def test_the_same_bits_also_when_workers_die_in_the_second_exchange(
    method: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an average that is evaluated in the gaps."""
    expected = played(ff.make(method), in_process)
    assert_same(played(ff.make(method), processes(workers)), expected)
    monkeypatch.setattr(Dying, "markers", tmp_path)
    assert_same(played(dying(method), processes(workers)), expected)
    assert sorted(int(mark.name) for mark in tmp_path.iterdir()) == [0, 1, 2, 3], "not everyone died"
