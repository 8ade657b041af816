"""Nothing crosses but messages: every method gives the same bits when server and clients share only bytes.

Every run of the tests takes each method with each parameter set and with schedules on the plain model, and with two
passes per step on two kinds of model and with one average, by turns; in `make battery`, every variant, average
and kind of model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import flatfed as ff
from engines.bench import assert_same, exact
from flatfed.core.configuration.base_optimiser import SGDStep
from flatfed.core.method.algorithm import Algorithm, client_slots
from flatfed.core.method.messages import Message
from flatfed.core.model.layout import Layout
from methods.designs import few, marked, turned
from methods.wire import (
    AVERAGES,
    CHEATS,
    COHORTS,
    FEDERATED,
    LEFT,
    METHODS,
    POPULATION,
    TASKS,
    Crossing,
    LeavesInModule,
    RemembersOnItself,
    Remote,
    SpoilingEngine,
    WireEngine,
    WritesReceived,
    numbered_variants,
    opening,
    payload,
    plainly,
    plan,
    play,
    reference,
    rich,
    spoilt,
    through_bytes,
    variants,
)

ROUNDS = 3
FEW = 4  # scalars of its own that a method may send per message
ENVELOPE_DOWN = 2  # numbers that go with every message: round and learning rate
ENVELOPE_UP = 5  # examples, steps, backprops, loss and drift

WHOLE, SHORT = numbered_variants(METHODS)
MODELS = [(method, task, kind) for method in METHODS for task in TASKS for kind in ("defaults", "two passes")]
METHODS_AND_TASKS = [(method, task) for method in METHODS for task in TASKS]
# Every method where parameters, statistics and counters stay with the clients; another kind of model by turns.
OTHER_TASKS = [task for task in TASKS if task != "BatchNorm local"]
SOME_TASKS = [*turned(METHODS, ["BatchNorm local"]), *turned(METHODS, OTHER_TASKS)]


def assert_crosses(method: Algorithm, task: str, averaged: str | None = None) -> WireEngine:
    """Compare the run through bytes with the plain one and return the engine, which knows what crossed."""
    asked = plan(method, task, averaged)
    engine = through_bytes(asked)
    actual = play(asked, engine)
    assert_same(actual, reference(method, task, averaged))
    return engine


@marked("method, number", WHOLE, few(SHORT, lambda pair: pair[0]))
def test_every_variant_gives_the_same_bits_through_the_wire(method: str, number: int) -> None:
    assert_crosses(variants(method)[number], "plain")


@marked("method, average", [(id, name) for id in METHODS for name in AVERAGES], turned(METHODS, AVERAGES))
def test_averages_give_the_same_bits_through_the_wire(method: str, average: str) -> None:
    assert_crosses(rich(method), "BatchNorm", average)
    actual = reference(rich(method), "BatchNorm", average)
    assert actual["eval_vector"] != actual["vector"], "the average is not in play"


@marked("method, task, kind", MODELS, [(*pair, "two passes") for pair in SOME_TASKS])
def test_every_kind_of_model_gives_the_same_bits_through_the_wire(method: str, task: str, kind: str) -> None:
    """And what crosses is whole vectors of what is shared, a few scalars, and as many bytes as the history says."""
    made = ff.make(method) if kind == "defaults" else rich(method)
    crossings = assert_crosses(made, task).crossings
    assert_whole_vectors(crossings, plan(made, task).task.layout(), made.uploads_per_tensor())
    assert_counted(crossings, reference(made, task)["history"])


def assert_whole_vectors(crossings: list[Crossing], layout: Layout, per_tensor: tuple[str, ...]) -> None:
    lengths = {"buffers": layout.shared_buffers, "counters": layout.shared_counters}
    lengths |= dict.fromkeys(per_tensor, layout.shared_tensors)
    for data in (part for crossing in crossings for part in (*crossing.down, crossing.up)):
        message = Message.from_bytes(data)
        for name, vector in message.vectors.items():
            assert vector.shape == (lengths.get(name, layout.shared),)
            assert vector.dtype == (torch.int64 if name == "counters" else torch.float32)
        assert payload(data) == sum(v.numel() * v.element_size() for v in message.vectors.values())
        assert len(message.scalars) <= FEW
    assert all(crossing.watched <= FEW for crossing in crossings)


def assert_counted(crossings: list[Crossing], history: list[str]) -> None:
    """Compare each row's bytes with those of the wire: what the engine is handed is what is sent and counted."""
    for row in map(json.loads, history):
        mine = [crossing for crossing in crossings if crossing.round == row["round"]]
        up = sum(size(c.up) + 8 * (c.watched + ENVELOPE_UP) for c in mine)
        down = sum(size(part) for c in mine for part in c.down) + 8 * ENVELOPE_DOWN * len(mine)
        assert (row["bytes_down"], row["bytes_up"]) == (down, up)


def size(data: bytes) -> int:
    """Bytes of a message as they are counted, read off its wire form."""
    return payload(data) + 8 * len(Message.from_bytes(data).scalars)


@pytest.fixture(scope="module")
def remote() -> Iterator[Remote]:
    site = Remote()
    yield site
    site.close()
    assert site.process.exitcode == 0


@marked("method, task", METHODS_AND_TASKS, turned(METHODS, ["BatchNorm local"]))
def test_clients_in_a_process_of_their_own_give_the_same_bits(method: str, task: str, remote: Remote) -> None:
    asked = plan(rich(method), task)
    assert remote.process.pid not in (None, os.getpid())
    actual = play(asked, WireEngine(asked, remote.open(opening(asked))))
    assert_same(actual, reference(rich(method), task))


@marked("method, task", METHODS_AND_TASKS, SOME_TASKS)
def test_the_reference_is_not_trivial(method: str, task: str) -> None:
    """Guard against comparing nothing with nothing: models and declared states really move."""
    made = rich(method)
    asked, cohorts = plan(made, task), [[0]] * ROUNDS if made.pooled else COHORTS[:ROUNDS]
    start = asked.federation(plainly(asked))
    actual = reference(made, task)
    rows = [json.loads(row) for row in actual["history"]]
    assert (actual["status"], [row["clients"] for row in rows]) == ("finished", [list(c) for c in cohorts])
    assert all(row["update_norm"] > 0 for row in rows)
    assert not any("refused" in row for row in rows)
    fresh = start.clients.read(0).tensors()
    assert actual["known"] == (sorted({k for cohort in cohorts for k in cohort}) if fresh else [])
    for name in {*client_slots(made, SGDStep()), *fresh.keys() & {"local_parameters"}}:
        assert moved(actual, name) == actual["known"]
    assert bool(actual["records"]) == bool(made.records())


@pytest.mark.parametrize("task", ["BatchNorm", "BatchNorm statistics local"])
@pytest.mark.parametrize("method", FEDERATED)
def test_statistics_of_normalisation_move(method: str, task: str) -> None:
    """Every local step sees a batch, also where its one gradient is taken at a perturbed point."""
    actual, asked = reference(ff.make(method), task), plan(ff.make(method), task)
    if task == "BatchNorm":
        start = {name: exact(tensor) for name, tensor in asked.task.model.state_dict().items()}
        still = [name for name, value in start.items() if actual["model"][name] == value]
        assert not still
    else:
        assert moved(actual, "local_buffers") == moved(actual, "local_counters") == actual["known"]


def moved(actual: dict[str, Any], name: str) -> list[int]:
    """The clients of which this state is not what the client that was never asked has."""
    states = actual["client_states"]
    return [k for k in actual["known"] if states[k][name] != states[POPULATION - 1][name]]


# What was sent or received is a copy.


@marked("method, task", METHODS_AND_TASKS, SOME_TASKS)
def test_what_passed_may_become_garbage_once_it_was_read(method: str, task: str) -> None:
    """Received tensors after the reply, replies and messages after their round: nobody looks at them again."""
    asked = plan(rich(method), task)
    assert_same(play(asked, SpoilingEngine(asked)), reference(rich(method), task))


def test_garbage_is_put_where_it_is_looked_for_and_taken_back() -> None:
    message = Message(w=torch.arange(3.0), counters=torch.arange(2))
    before = message.to_bytes()
    with spoilt(message.vectors.values()):
        assert message.w.isnan().all()
        assert (message.counters == -1).all()
    assert message.to_bytes() == before


# These tests can fail: methods that cheat are exposed.


def cheated(id: str, kind: str, remote: Remote | None = None) -> dict[str, Any]:
    """Play a cheat on an engine."""
    LEFT.clear()
    asked = plan(CHEATS[id](), "plain")
    if kind == "process":
        assert remote is not None
        return play(asked, WireEngine(asked, remote.open(opening(asked))))
    return play(asked, {"plain": plainly, "bytes": through_bytes, "garbage": SpoilingEngine}[kind](asked))


@pytest.mark.parametrize("id", CHEATS)
def test_a_cheat_is_exposed_by_a_process_of_its_own(id: str, remote: Remote) -> None:
    plain, crossed = cheated(id, "plain"), cheated(id, "process", remote)
    assert plain["status"] == crossed["status"] == "finished"
    assert plain["vector"] != crossed["vector"]
    with pytest.raises(AssertionError):
        assert_same(crossed, plain)


@pytest.mark.parametrize("id", [id for id in CHEATS if id != LeavesInModule.id])
def test_a_cheat_is_exposed_by_bytes_alone(id: str) -> None:
    plain, crossed = cheated(id, "plain"), cheated(id, "bytes")
    assert plain["status"] == crossed["status"] == "finished"
    assert plain["vector"] != crossed["vector"]


def test_only_a_process_of_its_own_exposes_what_is_left_in_a_module() -> None:
    assert_same(cheated(LeavesInModule.id, "bytes"), cheated(LeavesInModule.id, "plain"))


@pytest.mark.parametrize("id", [RemembersOnItself.id, WritesReceived.id])
def test_what_a_cheat_holds_on_to_becomes_garbage(id: str) -> None:
    assert cheated(id, "garbage")["vector"] != cheated(id, "plain")["vector"]


def test_a_clean_method_is_not_taken_for_a_cheat(remote: Remote) -> None:
    """The cheats without their trick: the difference above comes from it alone."""
    asked = plan(ff.make("fedavg"), "plain")
    plain = play(asked, plainly(asked))
    assert_same(play(asked, WireEngine(asked, remote.open(opening(asked)))), plain)
    assert_same(play(asked, through_bytes(asked)), plain)
