"""Client states beyond the budget lie in mapped files; nobody can tell from the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engines.bench import assert_same, bits, exact
from flatfed.core.method.state import MemoryStore, State
from flatfed.experiments.planning import plan
from flatfed.runs.spilling import SpillingStore
from runs.bench import POPULATION, small_run, small_task

CLIENT = st.integers(0, 7)
VALUE = st.floats(-1e3, 1e3, width=32)
ONE_STATE = 64 + 64 + 64 + 128  # bytes in steps of 64: h, count, nothing, window


def fresh() -> State:
    return State(
        {
            "h": torch.zeros(5),
            "count": torch.tensor(0.0, dtype=torch.float64),
            "nothing": torch.zeros(0),
            "window": torch.zeros(3, 6, dtype=torch.float32).add_(1),
        }
    )


class Stores(RuleBasedStateMachine):
    """A spilling store and a plain one, under the same operations."""

    @initialize(budget=st.integers(0, 4 * ONE_STATE))
    def begin(self, budget: int) -> None:
        self.budget = budget
        self.plain, self.spilling = MemoryStore(fresh), SpillingStore(fresh, budget)

    @rule(client=CLIENT, value=VALUE)
    def write(self, client: int, value: float) -> None:
        for store in (self.plain, self.spilling):
            state = fresh()
            state.h, state.count, state.window = torch.full((5,), value), value, torch.full((3, 6), -value)
            store.write(client, state)

    @rule(client=CLIENT, value=VALUE)
    def change_in_place(self, client: int, value: float) -> None:
        for store in (self.plain, self.spilling):
            state = store.open(client)
            state.h += value
            state.window[1] = value

    @rule(client=CLIENT, value=VALUE)
    def change_a_copy(self, client: int, value: float) -> None:
        for store in (self.plain, self.spilling):
            copy = store.read(client)
            copy.h = torch.full((5,), value)

    @rule(client=CLIENT, value=VALUE)
    def read_change_and_write_back(self, client: int, value: float) -> None:
        for store in (self.plain, self.spilling):
            state = store.read(client)
            state.count += value
            store.write(client, state)

    @rule()
    def take_changed(self) -> None:
        assert self.spilling.take_changed() == self.plain.take_changed()

    @rule()
    def write_nothing(self) -> None:
        self.plain.write(3, State({}))
        self.spilling.write(3, State({}))

    @invariant()
    def both_hold_the_same(self) -> None:
        assert self.spilling.known() == self.plain.known()
        for client in range(8):
            assert exact(self.spilling.read(client).tensors()) == exact(self.plain.read(client).tensors())

    @invariant()
    def memory_is_bounded(self) -> None:
        assert self.spilling.bytes_in_memory <= self.budget
        assert self.spilling.bytes_in_memory <= ONE_STATE * len(self.spilling.known())


Stores.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)
TestStores = Stores.TestCase


def test_what_exceeds_the_budget_is_mapped_and_leaves_no_file(tmp_path: Path) -> None:
    store = SpillingStore(fresh, budget=2 * ONE_STATE, directory=tmp_path)
    for client in range(50):
        store.open(client).h += client
    assert store.bytes_in_memory == 2 * ONE_STATE
    assert list(tmp_path.iterdir()) == [], "scratch files must have no name"
    assert [float(store.read(client).h[0]) for client in range(50)] == [float(client) for client in range(50)]


def test_more_than_one_segment_can_be_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatfed.runs.spilling.SEGMENT_BYTES", 3 * ONE_STATE)
    store = SpillingStore(fresh, budget=0)
    for client in range(20):
        store.open(client).window += client
    for client in range(20):
        assert torch.equal(store.read(client).window, torch.full((3, 6), 1.0 + client))


def test_a_state_larger_than_a_segment_is_mapped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatfed.runs.spilling.SEGMENT_BYTES", 64)
    store = SpillingStore(lambda: State({"h": torch.zeros(1000)}), budget=100)
    for client in range(3):
        store.open(client).h += client
    assert store.bytes_in_memory == 0
    assert [float(store.read(client).h.sum()) for client in range(3)] == [0.0, 1000.0, 2000.0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_whose_states_are_all_mapped_comes_to_the_same_bits(
    workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = bits(small_run(None), POPULATION)
    monkeypatch.setattr(plan, "STATE_BUDGET", 0)
    run = small_run(tmp_path / "run", small_task(), workers=workers)
    store: Any = run._federation.clients
    assert store.bytes_in_memory == 0
    assert store.known()
    assert_same(bits(run, POPULATION), expected)


def resident(directory: Path) -> int:
    """Return the bytes of files below a directory that this process holds in memory."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            inside = str(directory) in line
        elif inside and name == "Rss:":
            total += 1024 * int(values[0])
    return total


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's account of memory")
def test_what_lies_on_disk_does_not_stay_in_memory(tmp_path: Path) -> None:
    size, clients = 2**20, 24  # 4 MB each
    store = SpillingStore(lambda: State({"h": torch.zeros(size)}), budget=0, directory=tmp_path)
    for client in range(clients):
        store.write(client, State({"h": torch.full((size,), float(client))}))
        store.open(client).h.add_(1)
    assert 0 < resident(tmp_path) <= 8 * size  # the one that is open
    for client in range(clients):
        assert float(store.read(client).h[-1]) == client + 1
    assert resident(tmp_path) <= 8 * size
