"""Every kind of bad reply is rejected by name, on every engine alike, and whatever the order of arrival."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from torch import Tensor
from torch.nn import functional

import flatfed as ff
from engines.bench import assert_same, bits, tensors_task
from engines.table import ENGINES, Row, on_engines
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.engine import Engine, Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.core.round.expectation import SPARE_NUMBERS
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import Run

CLIENTS, VICTIM, WHEN = 5, 2, 1
ALL = list(range(CLIENTS))
OTHERS = [client for client in ALL if client != VICTIM]
WITHOUT = [ALL, OTHERS, ALL]
SIZE = sum(parameter.numel() for parameter in tensors_task(clients=CLIENTS).model.parameters())

PLAIN = ENGINES["in-process"]

Alter = Callable[[Reply], list[Reply]]
Alteration = dict[tuple[int, int], Alter]
"""How the replies of a client in a round are altered."""


def then(alter: dict[int, Alter]) -> Alteration:
    """Alter replies of these clients, in the round of most tests."""
    return {(WHEN, client): change for client, change in alter.items()}


class Altered:
    """A real engine; what comes back from some clients in one round is altered on the way."""

    def __init__(self, engine: Engine, alter: Alteration, seed: int | None = None) -> None:
        self.engine, self.gaps, self.alter, self.seed = engine, engine.gaps, alter, seed

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        replies = [altered for reply in self.engine.exchange(message, jobs) for altered in self._altered(reply)]
        if self.seed is not None:
            random.Random(self.seed).shuffle(replies)
        yield from replies

    def _altered(self, reply: Reply) -> list[Reply]:
        alter = self.alter.get((reply.round, reply.client))
        return [reply] if alter is None else alter(reply)

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        return self.engine.compute(*work)

    def close(self) -> None:
        self.engine.close()


def planned(cohorts: list[list[int]], loss: Any = functional.cross_entropy, **changes: Any) -> Plan:
    settings = Settings(**{"rounds": len(cohorts), "lr": 0.1, "batch_size": 3, "vectorised": False, **changes})
    return Plan(tensors_task(loss, CLIENTS), ff.make("scaffold"), settings, ff.Replay(cohorts))


def play(plan: Plan, row: Row = PLAIN, alter: Alteration | None = None, seed: int | None = None) -> Run:
    engine = row.start(plan)
    try:
        federation = plan.federation(Altered(engine, alter or {}, seed))
        return Run(federation, list(federation.rounds()), None)
    finally:
        engine.close()


def states(run: Run) -> dict[str, Any]:
    """What a run has come to, without what its rows count."""
    found = bits(run, CLIENTS)
    return {name: found[name] for name in found if name != "history"}


def with_vectors(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Alter:
    return lambda reply: [replace(reply, message=Message.of(change(dict(reply.message.vectors))))]


def with_entry(vector: Tensor, value: float) -> Tensor:
    vector = vector.clone()
    vector[len(vector) // 2] = value
    return vector


def talkative(reply: Reply) -> list[Reply]:
    """The reply with more numbers than any method sends."""
    numbers = {f"number{n}": 1.0 for n in range(SPARE_NUMBERS + 1)}
    return [replace(reply, message=reply.message | Message.of({}, numbers))]


@dataclass(frozen=True)
class Kind:
    """How replies are altered, and what the row says of it; `counts`: one of the client's replies is taken."""

    alter: Alter
    reasons: tuple[str, ...]
    counts: bool = False


LARGEST = 2 * 4 * SIZE + 8 * SPARE_NUMBERS
KINDS = {
    "nan": Kind(with_vectors(lambda v: v | {"w": with_entry(v["w"], math.nan)}), ("w is not finite",)),
    "inf": Kind(with_vectors(lambda v: v | {"dc": with_entry(v["dc"], -math.inf)}), ("dc is not finite",)),
    "shape": Kind(with_vectors(lambda v: v | {"w": v["w"][1:]}), (rf"w has shape \({SIZE - 1},\), not \({SIZE},\)",)),
    "type": Kind(with_vectors(lambda v: v | {"w": v["w"].double()}), (r"w is torch\.float64, not torch\.float32",)),
    "missing name": Kind(with_vectors(lambda v: {"w": v["w"]}), ("lacks dc",)),
    "additional name": Kind(with_vectors(lambda v: v | {"more": v["w"]}), ("has unexpected more",)),
    "norm": Kind(with_vectors(lambda v: v | {"w": v["w"] + 100}), (r"update has norm .*, above the bound 50",)),
    "stale round": Kind(lambda reply: [replace(reply, round=0)], (r"answers round 0\.0, not 1\.0",)),
    "stale exchange": Kind(lambda reply: [replace(reply, exchange=1)], (r"answers round 1\.1, not 1\.0",)),
    "stale and good": Kind(lambda reply: [replace(reply, round=0), reply], (r"answers round 0\.0, not 1\.0",), True),
    "duplicate": Kind(lambda reply: [reply, replace(reply, seconds=9.0)], ("client answered twice",), True),
    "contradiction": Kind(
        lambda reply: [replace(reply, samples=reply.samples + 1), reply], ("client answered twice",) * 2
    ),
    "oversized": Kind(
        with_vectors(lambda v: v | {"w": v["w"].repeat(100)}),
        (rf"{4 * 101 * SIZE:,} bytes, above the bound {LARGEST:,}: w has shape \({100 * SIZE},\), not \({SIZE},\)",),
    ),
    "lost": Kind(lambda reply: [], ("^no reply$",)),
    "too many numbers": Kind(talkative, (rf"^{LARGEST + 8:,} bytes, above the bound {LARGEST:,}$",)),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_a_bad_reply_is_rejected_by_name_and_the_round_goes_on(kind: Kind) -> None:
    plan = planned([ALL] * 3, max_update_norm=50.0)
    here = play(plan, PLAIN, then({VICTIM: kind.alter}))
    rejected = here.history[WHEN]["rejected"]
    assert [entry["client"] for entry in rejected] == [VICTIM] * len(kind.reasons)
    for entry, reason in zip(rejected, kind.reasons, strict=True):
        assert re.search(reason, entry["reason"])
    assert [row["round"] for row in here.history if "rejected" in row] == [WHEN]
    expected = play(planned([ALL] * 3 if kind.counts else WITHOUT))
    assert [row["clients"] for row in here.history] == [row["clients"] for row in expected.history]
    # The states of all clients are among them: nothing of a rejected reply is kept.
    assert states(here) == states(expected)


def test_bad_replies_of_every_kind_are_rejected_alike_where_replies_wait_on_the_disk() -> None:
    kinds = [kind.alter for kind in KINDS.values()] + [twice(kind) for kind in ("nan", "norm", "duplicate")]
    alter = {(round, VICTIM): kind for round, kind in enumerate(kinds)}
    bounded, free = (
        play(planned([ALL] * len(kinds), max_update_norm=50.0, cohort_memory=memory), PLAIN, alter)
        for memory in ("0B", "unlimited")
    )
    assert_same(bits(bounded, CLIENTS), bits(free, CLIENTS))
    assert all("rejected" in row for row in bounded.history)


@on_engines("processes", "futures")
def test_bad_replies_of_every_kind_are_rejected_alike_on_every_engine(row: Row) -> None:
    """A round for each kind, and a sound one after the last."""
    plan = planned([ALL] * (len(KINDS) + 1), max_update_norm=50.0)
    alter = {(round, VICTIM): kind.alter for round, kind in enumerate(KINDS.values())}
    found, expected = play(plan, row, alter), play(plan, PLAIN, alter)
    assert_same(bits(found, CLIENTS), bits(expected, CLIENTS))
    assert ["rejected" in entry for entry in found.history] == [True] * len(KINDS) + [False]


class Late:
    """A real engine; the replies to the first attempt at a round come only with those to the next."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.gaps, self.held = engine, engine.gaps, list[Reply]()

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        replies = list(self.engine.exchange(message, jobs))
        if (replies[0].round, replies[0].attempt) == (WHEN, 0):
            self.held = replies
            return
        yield from self.held
        self.held = []
        yield from replies

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        return self.engine.compute(*work)


@on_engines(without="starts_slowly")
def test_late_replies_to_an_earlier_attempt_are_not_taken_for_those_to_the_next(row: Row) -> None:
    plan = planned([ALL] * 3, retries=1)
    engine = row.start(plan)
    try:
        federation = plan.federation(Late(engine))
        run = Run(federation, list(federation.rounds()), None)
    finally:
        engine.close()
    entry = run.history[WHEN]
    assert entry["attempts"] == 2
    reasons = [(fault["client"], fault["reason"]) for fault in entry["rejected"]]
    late = [(client, "answers attempt 1 at the round, not 2") for client in ALL]
    assert reasons == [(client, "no reply") for client in ALL] + late
    assert entry["clients"] == ALL
    assert states(run) == states(play(planned([ALL] * 3)))


def test_the_reply_of_a_client_that_was_not_asked_is_rejected() -> None:
    def also(reply: Reply) -> list[Reply]:
        return [reply, replace(reply, client=4)]

    plan = planned([ALL, OTHERS[:-1], ALL])
    here = play(plan, PLAIN, then({0: also}))
    assert here.history[WHEN]["rejected"] == [{"client": 4, "reason": "client was not asked"}]
    assert states(here) == states(play(plan))


# Caused by the code of a user.


def nan_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    loss = functional.cross_entropy(outputs, targets)
    return loss * math.nan if bool((targets == VICTIM).any()) else loss


def endless_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    loss = functional.cross_entropy(outputs, targets)
    return loss / 0.0 if bool((targets == VICTIM).any()) else loss


def steep_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    loss = functional.cross_entropy(outputs, targets)
    return loss * 1e4 if bool((targets == VICTIM).any()) else loss


@pytest.mark.parametrize(
    ("loss", "reason"),
    [(nan_loss, "not finite"), (endless_loss, "not finite"), (steep_loss, "above the bound 50")],
)
def test_a_loss_that_makes_bad_replies_costs_its_client_the_round(loss: Any, reason: str) -> None:
    plan = planned([OTHERS, ALL, OTHERS], loss, max_update_norm=50.0)
    here, there = play(plan), play(plan, ENGINES["processes"])
    assert_same(bits(there, CLIENTS), bits(here, CLIENTS))
    (entry,) = here.history[WHEN]["rejected"]
    assert entry["client"] == VICTIM
    assert entry["reason"].endswith(reason)
    assert states(here) == states(play(planned([OTHERS] * 3)))


# In any order.


def twice(kind: str) -> Alter:
    """A client that sends a bad reply and a good one."""
    return lambda reply: [*KINDS[kind].alter(reply), reply]


MIXED: dict[int, Alter] = {
    0: KINDS["duplicate"].alter,
    1: twice("nan"),
    VICTIM: twice("stale round"),
    3: KINDS["missing name"].alter,
}


@on_engines("in-process", "processes")
def test_rows_do_not_depend_on_the_order_of_arrival(row: Row) -> None:
    plan = planned([ALL] * 3)
    expected = play(plan, PLAIN, then(MIXED))
    assert [row["clients"] for row in expected.history] == [ALL, [0, VICTIM, 4], ALL]
    assert expected.history[WHEN]["rejected"] == [
        {"client": 0, "reason": "client answered twice"},
        {"client": 1, "reason": "client answered twice"},
        {"client": 1, "reason": "client answered twice"},
        {"client": VICTIM, "reason": "answers round 0.0, not 1.0"},
        {"client": 3, "reason": "lacks dc"},
    ]
    for seed in range(6 if row is PLAIN else 2):
        assert_same(bits(play(plan, row, then(MIXED), seed), CLIENTS), bits(expected, CLIENTS))


def test_why_a_run_stops_does_not_depend_on_the_order_of_arrival() -> None:
    plan = planned([ALL] * 3, retries=0)
    spoilt = then(dict.fromkeys(ALL, KINDS["missing name"].alter))
    reasons = {play(plan, PLAIN, spoilt, seed)._federation.reason for seed in range(4)}
    assert len(reasons) == 1
