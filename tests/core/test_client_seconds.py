"""How long clients work: measured where they run, reported in the history, sent by nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch

import flatfed as ff
from core.bench import net, pairs, task, train
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.engine import Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.core.round.exchange import ENVELOPE_UP
from flatfed.core.round.federation import TIMES
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.runs.metrics import summarise

COHORTS = [[0, 1, 2], [1, 3]]
SPOILT = 3


class Clockwork(InProcessEngine):
    """An engine on which client k works k + 1 seconds an exchange; what client 3 sends is spoilt when asked for."""

    spoils = False

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        for reply in super().exchange(message, jobs):
            spoilt = Message(w=torch.full_like(reply.message.w, torch.nan)) if "w" in reply.message else reply.message
            bad = self.spoils and reply.client == SPOILT
            yield replace(reply, seconds=reply.client + 1.0, message=spoilt if bad else reply.message)


def plan(method: str, **changes: Any) -> Plan:
    settings = Settings(rounds=2, lr=0.1, batch_size=None, dtype="float64", **{"vectorised": False, **changes})
    return Plan(task(), ff.make(method), settings, ff.Replay(COHORTS), workers=0)


def rows(asked: Plan, spoils: bool = False) -> list[dict[str, Any]]:
    engine = Clockwork(asked.task, asked.algorithm, asked.settings)
    engine.spoils = spoils
    return list(asked.federation(engine).rounds())


@pytest.mark.parametrize(("method", "exchanges"), [("fedavg", 1), ("mime", 2), ("naivefedgloss", 2)])
def test_a_row_has_the_mean_over_clients_of_all_their_exchanges(method: str, exchanges: int) -> None:
    assert [row["client_seconds"] for row in rows(plan(method))] == [2.0 * exchanges, 3.0 * exchanges]


def test_only_clients_that_took_part_count() -> None:
    actual = rows(plan("fedavg"), spoils=True)
    assert [row["client_seconds"] for row in actual] == [2.0, 2.0]
    assert actual[1]["clients"] == [1]


def test_without_a_good_reply_there_is_none() -> None:
    actual = rows(plan("fedavg", min_replies=2, retries=0), spoils=True)
    assert [row["client_seconds"] for row in actual] == [2.0, None]


def test_the_summary_has_the_mean_over_rounds() -> None:
    actual = rows(plan("fedavg"))
    assert summarise(actual, 2, None)["client_seconds"] == 2.5
    assert summarise([*actual, actual[0] | {"round": 2, "client_seconds": None}], 3, None)["client_seconds"] == 2.5
    old = [{name: value for name, value in row.items() if name != "client_seconds"} for row in actual]
    assert "client_seconds" not in summarise(old, 2, None)
    assert "client_seconds" not in summarise([], 2, None)


@pytest.mark.parametrize("vectorised", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_replies_carry_the_time_of_the_local_work(workers: int, vectorised: bool) -> None:
    asked = Plan(
        task(net(), pairs((6,) * 8)),
        ff.make("fedavg"),
        Settings(rounds=1, lr=0.1, batch_size=2, dtype="float64", vectorised=vectorised),
        ff.Replay([list(range(8))]),
    )
    given = asked.task, asked.algorithm, asked.settings
    with closing(ProcessEngine(*given, workers) if workers else InProcessEngine(*given)) as engine:
        federation, replies = asked.federation(Listening(engine)), Listening.heard
        started = time.perf_counter()
        [row] = federation.rounds()
        elapsed = time.perf_counter() - started
    times = [reply.seconds for reply in replies]
    assert len(times) == 8 and min(times) > 0
    assert sum(times) <= elapsed * max(workers, 1)
    assert row["client_seconds"] == pytest.approx(sum(times) / 8)
    if vectorised:
        assert len(set(times)) == 2, "two groups of four, whose members share the time"


class Listening:
    """An engine that notes the replies."""

    heard: list[Reply]

    def __init__(self, engine: Any) -> None:
        self.engine, self.gaps, Listening.heard = engine, engine.gaps, []

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        for reply in self.engine.exchange(message, jobs):
            self.heard.append(reply)
            yield reply

    def compute(self, *work: Any) -> Any:
        return self.engine.compute(*work)


def test_it_is_no_part_of_what_a_client_sends() -> None:
    run = train(task(), cohorts=COHORTS)
    assert set(TIMES) <= run.history[0].keys()
    for row, cohort in zip(run.history, COHORTS, strict=True):
        assert row["bytes_up"] == len(cohort) * (8 * len(run.vector) + ENVELOPE_UP)
    assert ENVELOPE_UP == 5 * 8
