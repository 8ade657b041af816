"""Client states beyond the budget lie in files; nobody can tell from the results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import flatfed as ff
from engines.bench import assert_same, bits, exact
from flatfed.core.method.state import State
from flatfed.experiments.planning import plan
from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.states.store import StateStore
from runs.bench import POPULATION, small_run, small_task

CLIENT = st.integers(0, 7)
VALUE = st.floats(-1e3, 1e3, width=32)
ONE_STATE = 64 + 64 + 64 + 128  # bytes in steps of 64: h, count, nothing, window
BYTES = 5 * 4 + 8 + 18 * 4  # in a file


def fresh() -> State:
    return State(
        {
            "h": torch.zeros(5),
            "count": torch.tensor(0.0, dtype=torch.float64),
            "nothing": torch.zeros(0),
            "window": torch.zeros(3, 6, dtype=torch.float32).add_(1),
        }
    )


class PlainStore:
    """States in a dictionary."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {}

    def read(self, client: int) -> State:
        return self.states[client].copy() if client in self.states else fresh()

    def open(self, client: int) -> State:
        return self.states.setdefault(client, fresh())

    def write(self, client: int, state: State) -> None:
        self.states[client] = state


class Stores(RuleBasedStateMachine):
    """A store with a budget and a plain one, under the same operations; checkpoints are saved and loaded on the way."""

    @initialize(budget=st.integers(0, 4 * ONE_STATE))
    def begin(self, budget: int) -> None:
        self.budget, self.round = budget, 0
        self.place = tempfile.TemporaryDirectory()
        self.plain, self.kept = PlainStore(), StateStore(fresh, budget)
        self.begin_session()

    def begin_session(self) -> None:
        self.checkpoints = Checkpoints(Path(self.place.name), "run")

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.cleanup()

    @rule(client=CLIENT, value=VALUE)
    def write(self, client: int, value: float) -> None:
        for store in (self.plain, self.kept):
            state = fresh()
            state.h, state.count, state.window = torch.full((5,), value), value, torch.full((3, 6), -value)
            store.write(client, state)

    @rule(client=CLIENT, value=VALUE)
    def change_in_place(self, client: int, value: float) -> None:
        for store in (self.plain, self.kept):
            state = store.open(client)
            state.h += value
            state.window[1] = value
        self.kept.close_opened()

    @rule(first=CLIENT, second=CLIENT, value=VALUE)
    def change_two_at_once(self, first: int, second: int, value: float) -> None:
        for store in (self.plain, self.kept):
            one, other = store.open(first), store.open(second)
            one.h += value
            other.h -= 2 * value
            one.count += 1
        self.kept.close_opened()

    @rule(client=CLIENT, value=VALUE)
    def change_a_copy(self, client: int, value: float) -> None:
        for store in (self.plain, self.kept):
            copy = store.read(client)
            copy.h = torch.full((5,), value)

    @rule(client=CLIENT, value=VALUE)
    def read_change_and_write_back(self, client: int, value: float) -> None:
        for store in (self.plain, self.kept):
            state = store.read(client)
            state.count += value
            store.write(client, state)

    @rule()
    def save(self) -> None:
        self.round += 1
        self.checkpoints.save(self.round, {}, {"clients": self.kept})
        self.saved = {client: exact(state.tensors()) for client, state in self.plain.states.items()}

    @precondition(lambda self: self.round)
    @rule(budget=st.integers(0, 4 * ONE_STATE))
    def go_on_in_a_new_process(self, budget: int) -> None:
        """What was not saved is lost; what was saved is there to the bit."""
        self.begin_session()
        self.budget, self.kept = budget, StateStore(fresh, budget)
        loaded = self.checkpoints.load_newest()
        if "clients" in loaded.states:
            self.kept.adopt(loaded.states["clients"])
        assert {client: exact(self.kept.read(client).tensors()) for client in self.kept.known()} == self.saved
        self.plain.states = {client: self.kept.read(client) for client in self.kept.known()}

    @rule()
    def write_nothing(self) -> None:
        self.kept.write(3, State({}))

    @invariant()
    def both_hold_the_same(self) -> None:
        assert self.kept.known() == sorted(self.plain.states)
        for client in range(8):
            assert exact(self.kept.read(client).tensors()) == exact(self.plain.read(client).tensors())

    @invariant()
    def memory_is_bounded(self) -> None:
        assert self.kept.bytes_in_memory <= self.budget
        assert self.kept.bytes_in_memory <= ONE_STATE * len(self.kept.known())

    @invariant()
    def the_file_has_no_more_places_than_three_checkpoints_need(self) -> None:
        sizes = [file.stat().st_size for file in Path(self.place.name).glob("states/*.states")]
        assert sum(sizes) <= 4 * 8 * BYTES


Stores.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
TestStores = Stores.TestCase


def test_what_exceeds_the_budget_leaves_the_memory_and_no_file(tmp_path: Path) -> None:
    store = StateStore(fresh, budget=2 * ONE_STATE, directory=tmp_path)
    for client in range(50):
        store.open(client).h += client
        store.close_opened()
    assert store.bytes_in_memory == 2 * ONE_STATE
    assert list(tmp_path.iterdir()) == [], "scratch files must have no name"
    assert [float(store.read(client).h[0]) for client in range(50)] == [float(client) for client in range(50)]


def test_what_is_open_stays_in_memory_until_it_is_closed() -> None:
    store = StateStore(fresh, budget=0)
    opened = [store.open(client) for client in range(5)]
    for client, state in enumerate(opened):
        state.h += client
    assert store.bytes_in_memory == 5 * ONE_STATE
    store.close_opened()
    assert store.bytes_in_memory == 0
    assert [float(store.read(client).h[0]) for client in range(5)] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_state_of_another_form_is_refused() -> None:
    store = StateStore(fresh, budget=0)
    store.write(0, fresh())
    with pytest.raises(ff.CheckpointError, match=r"a client's state is h 3, and those before it were .*window 3x6"):
        store.write(1, State({"h": torch.zeros(3)}))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_whose_states_all_lie_in_files_comes_to_the_same_bits(
    workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = bits(small_run(None), POPULATION)
    monkeypatch.setattr(plan, "STATE_BUDGET", 0)
    run = small_run(tmp_path / "run", small_task(), workers=workers)
    store: Any = run._federation.clients
    assert store.bytes_in_memory == 0
    assert store.known()
    assert_same(bits(run, POPULATION), expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_whose_states_all_lie_in_files_comes_to_the_same_bits(
    workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = bits(small_run(None, rounds=6, average=None), POPULATION)
    monkeypatch.setattr(plan, "STATE_BUDGET", 0)
    small_run(tmp_path / "run", rounds=3, average=None)
    run = ff.resume(tmp_path / "run", rounds=6, workers=workers)
    assert_same(bits(run, POPULATION), expected)
    assert_same(bits(ff.load_run(tmp_path / "run"), POPULATION), expected)


def test_a_run_keeps_its_states_when_its_directory_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plan, "STATE_BUDGET", 0)
    begun = small_run(tmp_path / "run", rounds=3, average=None)
    resumed = ff.resume(tmp_path / "run", rounds=5)
    ff.resume(tmp_path / "run", rounds=9)
    for run, rounds in ((begun, 3), (resumed, 5)):
        assert_same(bits(run, POPULATION), bits(small_run(None, rounds=rounds, average=None), POPULATION))


def test_a_state_of_no_checkpoint_that_another_wrote_over_is_refused(tmp_path: Path) -> None:
    checkpoints, store = Checkpoints(tmp_path, "run"), StateStore(fresh, budget=0)
    store.write(0, fresh())
    checkpoints.save(1, {}, {"clients": store})
    store.write(1, fresh())
    checkpoints.leave({"clients": store})
    (file,) = (tmp_path / "states").glob("*.states")
    with file.open("r+b") as other:
        other.seek(BYTES)
        other.write(b"another")
    assert store.read(0).tensors().keys() == fresh().tensors().keys()
    with pytest.raises(ff.CheckpointError, match="is damaged at place 1"):
        store.read(1)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's account of memory")
def test_what_lies_on_disk_does_not_stay_in_memory(tmp_path: Path) -> None:
    size, clients = 2**20, 64  # 4 MB each
    store = StateStore(lambda: State({"h": torch.zeros(size)}), budget=0, directory=tmp_path)
    before = resident()
    for client in range(clients):
        store.write(client, State({"h": torch.full((size,), float(client))}))
        store.open(client).h.add_(1)
        store.close_opened()
    for client in range(clients):
        assert float(store.read(client).h[-1]) == client + 1
    assert resident() - before <= 64 * 2**20


def resident() -> int:
    """Return the bytes that this process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("way", [torch.Tensor.detach, torch.Tensor.numpy, lambda tensor: tensor.data])
def test_an_opened_state_stays_while_anything_has_its_memory(way: Callable[[torch.Tensor], Any]) -> None:
    store = StateStore(lambda: State({"a": torch.zeros(3), "c": torch.zeros(64)}), budget=0)
    held = way(store.open(0).c)
    for client in range(1, 5):
        store.open(client).c += client
    assert store.bytes_in_memory <= 2 * (256 + 64)
    held += 7
    store.close_opened()
    assert [float(store.read(client).c[0]) for client in range(5)] == [7, 1, 2, 3, 4]


def test_opened_states_leave_the_memory_when_nobody_holds_them_and_keep_their_changes() -> None:
    store = StateStore(lambda: State({"c": torch.zeros(64)}), budget=2 * 256)
    held = store.open(0)
    view = store.open(1).c[:3]
    for client in range(2, 10):
        store.open(client).c += client
        assert store.bytes_in_memory <= 4 * 256  # the budget is exceeded by what is held, and by one that comes
    held.c += 7
    view += 8
    store.open(0).c.add_(1)
    assert float(held.c[0]) == 8, "both see the same state"
    sums = [float(store.read(client).c.sum()) for client in range(10)]
    assert sums == [8 * 64, 8 * 3, *(64 * client for client in range(2, 10))]
