"""Declared state, and the stores of what clients keep."""

from __future__ import annotations

import pytest
import torch

import flatfed as ff
from flatfed.core.method.round_memory import MainMemory
from flatfed.core.method.state import Overlay, State, per_tensor, scalar, vector, window
from flatfed.runs.states.store import StateStore

MODEL = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
SLOTS = {"h": vector(), "old": vector("model"), "a": scalar(0.1), "rows": window(2, of="vector")}


def fresh() -> State:
    return State.declared(SLOTS, MODEL)


def test_entries_begin_as_declared_in_the_type_of_the_model():
    state = fresh()
    assert list(state) == list(SLOTS)
    assert torch.equal(state.h, torch.zeros(3, dtype=torch.float64))
    assert torch.equal(state.old, MODEL)
    assert state.old is not MODEL
    assert float(state.a) == 0.1
    assert (state.rows.shape, state.rows.dtype) == ((2, 3), torch.float64)
    assert State.declared(SLOTS, MODEL.float()).h.dtype == torch.float32


def test_an_entry_may_have_one_number_for_each_tensor():
    state = State.declared({"v": per_tensor(0.5)}, MODEL, tensors=2)
    assert torch.equal(state.v, torch.tensor([0.5, 0.5], dtype=torch.float64))
    with pytest.raises(ff.FlatfedError, match=r"state 'v' has shape \(2,\), not \(3,\)"):
        state.v = MODEL


def test_assignment_copies_and_arithmetic_in_place_works():
    state, source = fresh(), torch.ones(3, dtype=torch.float64)
    state.h = source
    source.zero_()
    state.h += 1.0
    state.a = 0.3
    state.a += 0.1
    assert state.h.tolist() == [2.0] * 3
    assert float(state.a) == 0.3 + 0.1
    other = state.copy()
    other.h += 1.0
    assert state.h.tolist() == [2.0] * 3


def test_wrong_shapes_and_undeclared_names_are_errors_that_say_so():
    state = fresh()
    with pytest.raises(ff.FlatfedError, match=r"state 'h' has shape \(3,\), not \(4,\)"):
        state.h = torch.zeros(4)
    for use in (lambda: state.g, lambda: setattr(state, "g", 1.0)):
        with pytest.raises(AttributeError, match=r"no state 'g' is declared, only \['a', 'h', 'old', 'rows'\]"):
            use()


@pytest.fixture(params=["in memory", "in a file", "overlay"])
def store(request):
    kept = StateStore(fresh, 0 if request.param == "in a file" else 2**20)
    return Overlay(kept, MainMemory()) if request.param == "overlay" else kept


def test_a_store_hands_out_copies_and_keeps_what_is_written(store):
    taken = store.read(4)
    taken.h += 1.0
    assert store.read(4).h.tolist() == [0.0] * 3
    assert store.known() == []
    store.write(4, taken)
    store.read(4).h.zero_()
    assert store.read(4).h.tolist() == [1.0] * 3
    store.open(2).a = 0.7
    assert float(store.read(2).a) == 0.7
    assert store.known() == [2, 4]
    store.close_opened()
    assert float(store.read(2).a) == 0.7
    again = store.read(4)
    again.old += 1.0
    store.write(4, again)
    assert store.read(4).old.tolist() == [2.0, 3.0, 4.0]
