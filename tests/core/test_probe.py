"""A round that is only tried leaves every bit as it was, and shows the very models of the round that follows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from engines.bench import exact
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Engine, Job, Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.core.round.exchange import TooFewReplies
from flatfed.core.round.federation import Federation
from flatfed.core.round.probe import Probe, last_round, probe
from flatfed.engines.in_process import InProcessEngine
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.experiments.planning.plan import Plan
from methods.designs import marked, turned
from methods.wire import COHORTS, METHODS, POPULATION, average, everything, make_task, rich, takes_optimiser

ROUNDS = 4
SETTINGS = {
    "lr": 0.1,
    "batch_size": 3,
    "lr_decay": 0.9,
    "seed": 7,
    "evaluate_every": 1,
    "evaluate_last": 0,
    "local_epochs": 2,
}
TAKE_AN_OPTIMISER = [id for id in METHODS if takes_optimiser(id)]
OTHERS = ["plain", "BatchNorm statistics local", "head local"]
FEW = ["fedavg", "fedgloss", "fedwmsam", "mime", "naivefedgloss", "scaffold"]


class Recorder:
    """An engine that notes the models that clients really have at the end of an exchange."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.models: dict[int, dict[int, Tensor]] = {}
        self.uploads: dict[int, dict[int, Message]] = {}
        self.gaps = engine.gaps

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        asked = list(jobs)
        self.models[asked[0].round], self.uploads[asked[0].round] = {}, {}
        for reply in self._engine.exchange(message, [replace(job, shows_model=True) for job in asked]):
            assert reply.model is not None
            self.models[reply.round][reply.client] = reply.model
            self.uploads[reply.round][reply.client] = reply.message
            yield reply if asked[0].shows_model else replace(reply, model=None)

    def compute(self, *work: Any) -> Any:
        return self._engine.compute(*work)

    def close(self) -> None:
        self._engine.close()


def vectorised_task() -> ff.Task:
    """A network that clients can be trained on vectorised."""
    generator = torch.Generator().manual_seed(3)
    data = [(torch.randn(n, 6, generator=generator), (torch.arange(n) + k) % 3) for k, n in enumerate((3, 5, 6, 8, 5))]
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3))
    return ff.Task(model, data, test=data[0])


def plan(method: Algorithm, task: str = "BatchNorm local", averaged: str | None = "swa", **changes: Any) -> Plan:
    settings = Settings(rounds=ROUNDS, **{"vectorised": False, **SETTINGS, **changes})
    problem = vectorised_task() if settings.vectorised else make_task(task)
    return Plan(problem, method, settings, ff.Replay(COHORTS), average(averaged), workers=0)


def in_process(plan: Plan) -> Engine:
    return InProcessEngine(plan.task, plan.algorithm, plan.settings)


def with_workers(plan: Plan) -> Engine:
    return ProcessEngine(plan.task, plan.algorithm, plan.settings, 2)


def whole_state(federation: Federation) -> dict[str, Any]:
    """Return every bit that a federation keeps, and the global generators."""
    server = federation.server
    stores = {"clients": federation.clients, "records": federation.records}
    held = {name: {k: exact(store.read(k).tensors()) for k in range(POPULATION)} for name, store in stores.items()}
    rng = exact(torch.get_rng_state()), repr(np.random.get_state()), repr(random.getstate())  # noqa: NPY002
    return held | {
        "known": {name: store.known() for name, store in stores.items()},
        "server": exact({"w": server.w} | server.kept.tensors() | server.buffers),
        "about": (server.round, server.lr, dict(server.watch), federation.round, federation.status, federation.reason),
        "method": json.dumps(federation.method.to_dict()),
        "average": exact(federation.average_kept.tensors()),
        "shows": federation.shows_models,
        "rng": rng,
    }


def same(a: Tensor, b: Tensor) -> bool:
    return bool(exact(a) == exact(b))


def probed_run(plan: Plan, make_engine: Callable[[Plan], Engine], probes: bool = True) -> tuple[Any, dict[int, Probe]]:
    """Play all rounds, probing whenever one is done (if so); return what came of it, and what was seen before which.

    An engine with gaps tells of a round when the next has been played, its evaluation going on between them.
    """
    seen = {}
    with closing(Recorder(make_engine(plan))) as recorder:
        federation = plan.federation(recorder)
        rows, played = [], federation.rounds()
        while federation.round < ROUNDS:
            if probes:
                before = whole_state(federation)
                seen[federation.round] = probe(federation)
                assert whole_state(federation) == before
            rows.append(next(played))
        rows += played
        actual = everything(ff.Run(federation, rows, None)) | {"models": recorder.models, "uploads": recorder.uploads}
        return actual, seen


def drawn(asked: Plan, round: int) -> list[int]:
    return asked.sampler.draw(asked.task.population, asked.settings.seed, round, 0)


def check(asked: Plan, make_engine: Callable[[Plan], Engine] = in_process) -> None:
    """A run with probes comes to what it comes to without, and each probe saw the models of the next round."""
    actual, seen = probed_run(asked, make_engine)
    plain, _ = probed_run(asked, make_engine, probes=False)
    assert {n: actual[n] for n in actual if n not in ("models", "uploads")} == {
        n: plain[n] for n in plain if n not in ("models", "uploads")
    }
    assert len(seen) >= ROUNDS - 1
    for round, one in seen.items():
        real, up = plain["models"][round], plain["uploads"][round]
        assert sorted(real) == [model.client for model in one.models] == drawn(asked, round)
        for model, reply in zip(one.models, one.replies, strict=True):
            assert same(model.w, real[model.client]), (round, model.client)
            assert model.samples == len(asked.task.examples(model.client))
            assert exact(dict(reply.message.vectors)) == exact(dict(up[model.client].vectors))
            sent = [name for name in model.buffers if not name.startswith("local_")]
            assert all(same(model.buffers[name], up[model.client].vectors[name]) for name in sent)


@pytest.mark.filterwarnings("ignore:.*momentum")
@marked("method", METHODS, METHODS[::2])
def test_every_method_is_probed_without_a_trace(method: str) -> None:
    """On a network with dropout, augmentation and BatchNorm that stays on the clients, under an average."""
    check(plan(ff.make(method)))


@marked("method", TAKE_AN_OPTIMISER, TAKE_AN_OPTIMISER[::2])
def test_with_two_passes_a_step_and_shared_statistics(method: str) -> None:
    check(plan(rich(method), "BatchNorm", None))


@pytest.mark.parametrize("method", FEW)
def test_with_workers(method: str) -> None:
    check(plan(ff.make(method), "BatchNorm"), with_workers)


@marked("method", METHODS, [*FEW, *(id for id in METHODS[::3] if id not in FEW)])
def test_vectorised(method: str) -> None:
    check(plan(ff.make(method), vectorised=True))


@pytest.mark.parametrize("method", FEW)
def test_vectorised_with_workers(method: str) -> None:
    check(plan(ff.make(method), vectorised=True), with_workers)


@marked("method, task", [(id, task) for id in FEW for task in OTHERS], turned(FEW, OTHERS))
def test_with_other_parts_that_stay_on_the_clients(method: str, task: str) -> None:
    check(plan(ff.make(method), task))


def test_the_mean_of_the_models_is_the_next_global_model() -> None:
    asked = plan(ff.make("fedavg"), "plain", None)
    federation = asked.federation(in_process(asked))
    for _ in federation.rounds():
        if federation.round == ROUNDS:
            break
        seen, w = probe(federation), federation.server.w
        total = sum(model.samples for model in seen.models)
        expected = sum(model.w * (model.samples / total) for model in seen.models)
        torch.testing.assert_close(seen.pseudo_gradient, w - expected, rtol=1e-4, atol=1e-6)
        clone = asked.federation(in_process(asked))
        rows = clone.rounds()
        for _ in range(federation.round + 1):
            next(rows)
        torch.testing.assert_close(clone.server.w, expected, rtol=1e-5, atol=1e-6)


def test_other_clients_and_their_order() -> None:
    asked = plan(ff.make("scaffold"))
    federation = asked.federation(in_process(asked))
    next(federation.rounds())
    seen = probe(federation, [4, 1, 0])
    assert [model.client for model in seen.models] == [0, 1, 4]
    alone = probe(federation, [1])
    assert same(alone.models[0].w, seen.models[1].w)
    assert federation.clients.known() == sorted(COHORTS[0])


def test_at_the_end_it_is_the_round_that_a_longer_run_would_play() -> None:
    asked = plan(ff.make("fedgloss"), averaged=None)
    federation = asked.federation(in_process(asked))
    for _ in federation.rounds():
        pass
    longer = replace(asked, settings=asked.settings.replace(rounds=ROUNDS + 1))
    engine = Recorder(in_process(longer))
    for _ in longer.federation(engine).rounds():
        pass
    before = whole_state(federation)
    seen = probe(federation)
    assert whole_state(federation) == before
    assert [model.client for model in seen.models] == sorted(COHORTS[ROUNDS])
    assert all(same(model.w, engine.models[ROUNDS][model.client]) for model in seen.models)


def test_a_replay_has_no_next_round_at_its_end() -> None:
    asked = replace(plan(ff.make("fedavg")), sampler=ff.Replay(COHORTS[:ROUNDS]))
    federation = asked.federation(in_process(asked))
    for _ in federation.rounds():
        pass
    with pytest.raises(ConfigError, match="who would take part in the next is not known"):
        probe(federation)


@marked("method", METHODS, METHODS[::2])
def test_the_last_round_is_seen_as_it_was_played(method: str) -> None:
    """With BatchNorm that stays on the clients, under an average; the states it began with are gone by then."""
    asked = plan(ff.make(method))
    engine = Recorder(in_process(asked))
    federation = asked.federation(engine)
    federation.keeps_past = True
    for _ in federation.rounds():
        pass
    played, before = dict(engine.models[ROUNDS - 1]), whole_state(federation)
    seen = last_round(federation)
    assert whole_state(federation) == before
    assert [model.client for model in seen.models] == sorted(played)
    assert all(same(model.w, played[model.client]) for model in seen.models)


def test_before_any_round_there_is_no_last_one() -> None:
    asked = plan(ff.make("fedavg"))
    with pytest.raises(ConfigError, match="no round has been played yet"):
        last_round(asked.federation(in_process(asked)))


def test_a_variant_of_the_method() -> None:
    asked = plan(ff.make("fedgloss", rho_server=0.5), "plain", None)
    federation = asked.federation(in_process(asked))
    next(federation.rounds())
    plain = asked.algorithm.replace(rho_server=0.0)
    before = whole_state(federation)
    assert same(probe(federation, algorithm=plain).replies.sent.w, federation.server.w)
    assert not same(probe(federation).replies.sent.w, federation.server.w)
    assert whole_state(federation) == before
    assert federation.algorithm.rho_server == 0.5


def test_clients_without_examples_are_left_out() -> None:
    task = make_task("plain")
    x, y = task.examples(2).batch(torch.arange(0))
    task = replace(task, clients=[*task.clients[:2], (x, y), *task.clients[3:]])
    asked = Plan(task, ff.make("fedavg"), Settings(rounds=2, vectorised=False, **SETTINGS), ff.Replay(COHORTS[:2]))
    federation = asked.federation(in_process(asked))
    assert [model.client for model in probe(federation).models] == [0, 3]
    with pytest.raises(TooFewReplies, match="0 good replies of 0"):
        probe(federation, [2])


def test_a_state_on_disk_is_not_touched(tmp_path: Any) -> None:
    """Probes of a run that came from its directory write nothing there."""
    run = ff.train(
        vectorised_task(), ff.make("scaffold"), rounds=2, sampling=3, lr=0.1, workers=0, out=tmp_path / "run"
    )
    files = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    again = ff.load_run(tmp_path / "run")
    seen = probe(again._federation)
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == files
    assert [exact(m.w) for m in seen.models] == [exact(m.w) for m in probe(federation_of(run)).models]


def federation_of(run: ff.Run) -> Federation:
    federation = run._federation
    federation.engine = InProcessEngine(federation.task, federation.algorithm, federation.settings)
    return federation


def test_a_reply_of_training_holds_no_model() -> None:
    """Models are shown to probes alone: the real exchange does not carry them."""
    asked = plan(ff.make("fedavg"))
    engine = in_process(asked)
    jobs: list[Job] = []

    class Watching:
        gaps = False

        def exchange(self, message: Message, given: Jobs) -> Iterator[Reply]:
            jobs.extend(given)
            return engine.exchange(message, jobs[-len(given) :])

        def compute(self, *work: Any) -> Any:
            return engine.compute(*work)

        def close(self) -> None:
            engine.close()

    federation = asked.federation(Watching())
    probe(federation)
    next(federation.rounds())
    assert [job.shows_model for job in jobs] == [True] * 3 + [False] * 3
