"""Every method comes to the same bits with a bound on the memory of a round; what it reads is as its page says."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

import flatfed as ff
from core.bench import net, normed, pairs, task
from engines.bench import assert_same, bits
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm, client_slots
from flatfed.core.method.round_memory import StoredTensors
from flatfed.core.round.sampling import Uniform
from flatfed.experiments.planning.plan import Plan

METHODS = [id for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed.")]
SIZES = (4, 8, 2, 6, 4)
TIGHT = "600B"
"""Less than the vectors of two clients: most of what comes has to wait on the disk."""
ROUNDS = 3


@functools.cache
def small_task() -> ff.Task:
    return task(normed(), pairs(SIZES))


@functools.cache
def played(id: str, memory: str, workers: int = 0, **changes: Any) -> ff.Run:
    settings = {"rounds": ROUNDS, "sampling": 4, "lr": 0.1, "batch_size": 2, "dtype": "float64", **changes}
    return ff.train(small_task(), ff.make(id), cohort_memory=memory, workers=workers, **settings)


@pytest.mark.parametrize("id", METHODS)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_bound_changes_no_bit(id: str, workers: int) -> None:
    bounded = played(id, TIGHT, workers)
    memory: Any = bounded._federation.memory
    assert memory.scratch_files > 0 or ff.make(id).pooled
    population = bounded._federation.task.population
    assert_same(bits(bounded, population), bits(played(id, "unlimited"), population))


@pytest.mark.parametrize("id", ["fedavg", "scaffold", "fedwmsam", "mime"])
def test_vectorised_clients_come_to_the_same_bits(id: str) -> None:
    plain = task(net(), pairs(SIZES))
    given = {"rounds": ROUNDS, "sampling": 4, "lr": 0.1, "batch_size": 2, "workers": 0, "vectorised": True}
    bounded, free = (ff.train(plain, ff.make(id), cohort_memory=memory, **given) for memory in (TIGHT, "unlimited"))
    assert_same(bits(bounded, len(SIZES)), bits(free, len(SIZES)))


# What a method reads of the replies.


class CountedTensors(Mapping[str, Tensor]):
    """Tensors that count how often they are read."""

    def __init__(self, tensors: Mapping[str, Tensor], reads: Counter[str]) -> None:
        self._tensors, self._reads = dict(tensors), reads

    def __getitem__(self, name: str) -> Tensor:
        self._reads[name] += 1
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class CountingMemory:
    """The memory of a round, which counts how often vectors of replies are read; states are left out."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.reads: Counter[str] = Counter()
        self._state = client_slots(algorithm, ff.SGDStep()).keys()

    def keep(self, tensors: Mapping[str, Tensor]) -> StoredTensors:
        return dict(tensors) if tensors.keys() == self._state else CountedTensors(tensors, self.reads)


def needs(id: str) -> tuple[int, int, int, int]:
    """Return what a method has per client: vectors that come, how often vectors are read, states, records."""
    algorithm = ff.make(id)
    settings = Settings(rounds=ROUNDS, lr=0.1, batch_size=2, dtype="float64", vectorised=False)
    plan = Plan(task(nn.Linear(4, 3).double(), pairs(SIZES)), algorithm, settings, Uniform(4), workers=0)
    federation = plan.federation(plan.engine())
    rounds = federation.rounds()
    next(rounds)
    counting = CountingMemory(algorithm)
    federation.memory = counting
    row = next(rounds)
    clients, size = len(row["clients"]), 8 * len(federation.server.w)
    states = len([slot for slot in client_slots(algorithm, ff.SGDStep()).values() if slot.kind == "vector"])
    reads = sum(counting.reads.values()) // clients
    return row["bytes_up"] // size // clients, reads, states, len(algorithm.records())


def stated() -> dict[str, tuple[int, ...]]:
    """Return the rows of the table in the page."""
    page = (Path(__file__).parents[2] / "docs" / "capacity.md").read_text(encoding="utf-8")
    table = page.partition("## Large cohorts")[2]
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    return {id: tuple(map(int, numbers)) for id, *numbers in rows}


@pytest.mark.parametrize("id", METHODS)
def test_the_page_states_what_a_method_needs(id: str) -> None:
    assert stated().get(id) == needs(id)
