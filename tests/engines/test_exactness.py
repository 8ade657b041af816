"""The same bits on any number of workers, with any start method and in any order of arrival."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from engines.bench import CASES, CLIENTS, DESIGN, assert_same, bits, digits
from engines.table import ENGINES, Row, on_engines
from flatfed.core.method.engine import Engine, Job, Reply
from flatfed.core.method.messages import Message
from flatfed.engines.processes.pool import ProcessEngine
from flatfed.experiments.planning.plan import Plan

Order = Callable[[list[Any]], list[Any]]


def in_process(plan: Plan) -> Engine:
    return ENGINES["in-process"].start(plan)


def processes(workers: int, start_method: str = "fork") -> Callable[[Plan], Engine]:
    return lambda plan: ProcessEngine(
        plan.task, plan.algorithm, plan.settings, workers=workers, start_method=start_method
    )


@functools.cache
def reference(name: str) -> dict[str, Any]:
    """What the plain engine makes of a case."""
    return CASES[name].play(in_process)


@on_engines("processes", "futures", "ray", name=lambda row: DESIGN if row.starts_slowly else CASES)
def test_every_engine_gives_the_bits_of_the_plain_one(row: Row, name: str) -> None:
    assert_same(CASES[name].play(row.start), reference(name))


@pytest.mark.parametrize(("name", "workers"), [(name, (1, 3)[turn % 2]) for turn, name in enumerate(CASES)])
def test_any_number_of_workers_gives_the_bits_of_the_plain_engine(name: str, workers: int) -> None:
    assert_same(CASES[name].play(processes(workers)), reference(name))


@pytest.mark.parametrize("name", CASES)
def test_the_reference_is_not_trivial(name: str) -> None:
    """Guard against comparing nothing with nothing: the models and states of the cases really move."""
    plan = CASES[name].plan()
    start = bits(ff.Run(plan.federation(in_process(plan)), [], None), CLIENTS)
    found = reference(name)
    moved = [a != b for a, b in zip(found["client_states"], start["client_states"], strict=True)]
    assert (found["status"], len(found["history"])) == ("finished", CASES[name].rounds)
    assert found["vector"] != start["vector"]
    assert found["server_state"] != start["server_state"]
    assert sum(moved) >= 5 or not any(found["client_states"])
    assert (found["eval_vector"] != found["vector"]) == ("swa" in name)


def test_spawned_workers_give_the_same_bits_as_forked_ones() -> None:
    """Of a method with two exchanges: both go to each worker."""
    name = "naivefedgloss+sam, two exchanges"
    assert_same(CASES[name].play(processes(2, "spawn")), reference(name))


def test_train_gives_the_same_bits_for_every_value_of_workers() -> None:
    def run(workers: Any) -> dict[str, Any]:
        settings = {"rounds": 2, "sampling": 4, "lr": 0.05, "average": ff.SWA(start=0.0, cycle=1)}
        return bits(ff.train(digits(), ff.make("fedsmoo"), workers=workers, **settings), CLIENTS)

    expected = run(0)
    for workers in (1, 3, "auto"):
        assert_same(run(workers), expected)


class Reordered:
    """An engine whose jobs are done, and whose replies arrive, in another order."""

    def __init__(self, engine: Engine, order: Order) -> None:
        self.engine, self.order = engine, order

    def exchange(self, message: Message, jobs: Sequence[Job]) -> Iterator[Reply]:
        replies = sorted(self.engine.exchange(message, self.order(list(jobs))), key=lambda reply: reply.client)
        yield from self.order(replies)

    @property
    def gaps(self) -> bool:
        return self.engine.gaps

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        yield from self.order(list(self.engine.compute(*work)))

    def close(self) -> None:
        self.engine.close()


def shuffled(seed: int) -> Order:
    source = random.Random(seed)
    return lambda items: source.sample(items, len(items))


@pytest.mark.parametrize(
    "order",
    [pytest.param(lambda items: items[::-1], id="reversed"), pytest.param(shuffled(0), id="shuffled")],
)
@pytest.mark.parametrize("name", CASES)
def test_any_order_of_arrival_gives_the_same_bits(name: str, order: Order) -> None:
    assert_same(CASES[name].play(lambda plan: Reordered(in_process(plan), order)), reference(name))


@on_engines("processes", "futures")
def test_shuffled_arrival_from_workers_gives_the_same_bits(row: Row) -> None:
    name = "scaffold+asam+swa, BatchNorm"
    found = CASES[name].play(lambda plan: Reordered(row.start(plan, workers=3), shuffled(7)))
    assert_same(found, reference(name))


def test_a_test_set_of_several_chunks_is_evaluated_to_the_same_bits() -> None:
    generator = torch.Generator().manual_seed(4)
    data = [(torch.randn(5, 3, generator=generator), torch.arange(5) % 2) for _ in range(4)]
    test = (torch.randn(1300, 3, generator=generator), torch.arange(1300) % 2)  # chunks of 512, 512 and 276
    task = ff.Task(model=nn.Linear(3, 2), clients=data, test=test)

    def run(workers: int) -> dict[str, Any]:
        return bits(ff.train(task, ff.make("fedavg"), rounds=2, sampling=2, lr=0.1, workers=workers), 4)

    expected = run(0)
    assert_same(run(2), expected)
    assert_same(run(3), expected)


def test_the_callers_threads_do_not_enter_the_result() -> None:
    """The vector is long enough (206,003) for torch to divide a sum among threads."""
    generator = torch.Generator().manual_seed(4)
    data = [(torch.randn(8, 100, generator=generator), torch.arange(8) % 3) for _ in range(3)]
    task = ff.Task(model=nn.Sequential(nn.Linear(100, 2000), nn.ReLU(), nn.Linear(2000, 3)), clients=data)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            run = ff.train(task, ff.make("fedsmoo"), rounds=2, sampling=2, lr=0.1, workers=0)
            assert torch.get_num_threads() == count, "the caller's setting must be left alone"
            found.append(bits(run, 3))
    finally:
        torch.set_num_threads(threads)
    assert_same(found[1], found[0])


def test_the_callers_generator_neither_matters_nor_moves() -> None:
    state, found = torch.get_rng_state(), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(CASES["fedsmoo, BatchNorm"].play(in_process))
        assert torch.equal(torch.get_rng_state(), before)
    torch.set_rng_state(state)
    assert_same(found[1], found[0])
