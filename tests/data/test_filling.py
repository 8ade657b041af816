"""Filling clients, against slow and obvious ground truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flatfed.data.partition.base import apportion
from flatfed.data.partition.class_shares import deal_by_size, deal_classes, share
from flatfed.data.partition.dirichlet import Mixtures, fill_by_draws, random_turns


def one_by_one(sizes: np.ndarray, mixes: np.ndarray, wanted: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A random client that is not full draws a class that is not exhausted, until all are full."""
    table, left = np.zeros(mixes.shape, dtype=np.int64), sizes.copy()
    while (waiting := np.flatnonzero(table.sum(axis=1) < wanted)).size:
        client = generator.choice(waiting)
        weights = np.where(left > 0, mixes[client], 0.0)
        chosen = generator.choice(len(sizes), p=weights / weights.sum())
        table[client, chosen] += 1
        left[chosen] -= 1
    return table


@pytest.mark.parametrize("wanted", [[4, 4, 4], [1, 8, 3]], ids=["equal", "unequal"])
def test_filling_at_once_has_the_law_of_one_by_one(wanted: list[int]) -> None:
    sizes, turns, runs = np.array([2, 5, 5]), np.array(wanted), 3000
    mixes = np.array([[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    mixtures = Mixtures(0.5 * np.log(mixes), scale=0.5)
    generator = np.random.default_rng(0)
    fast = [fill_by_draws(sizes, mixtures, random_turns(turns, generator), generator) for _ in range(runs)]
    slow = [one_by_one(sizes, mixes, turns, generator) for _ in range(runs)]
    for moment in (1, 2):
        difference = np.mean(np.power(fast, moment), axis=0) - np.mean(np.power(slow, moment), axis=0)
        noise = np.sqrt((np.power(fast, moment).var(axis=0) + np.power(slow, moment).var(axis=0)) / runs)
        assert np.all(np.abs(difference) < 4 * noise)


@pytest.mark.parametrize("concentration", [0.02, 0.5, 3.0])
def test_mixtures_have_the_moments_of_the_dirichlet(concentration: float) -> None:
    classes = 5
    mixtures = Mixtures.draw(20_000, classes, concentration, np.random.default_rng(0))
    q = mixtures.among(np.ones(classes, dtype=np.bool_))
    variance = (classes - 1) / classes**2 / (classes * concentration + 1)
    assert np.allclose(q.sum(axis=1), 1.0)
    assert np.allclose(q.mean(axis=0), 1 / classes, atol=0.01)
    assert np.allclose(q.var(axis=0), variance, rtol=0.05)


def test_mixtures_of_unequal_concentrations() -> None:
    """Mean `a_c / A` and variance `a_c (A - a_c) / (A^2 (A + 1))` with `A` the sum of the concentrations."""
    each = np.array([0.05, 0.5, 2.0, 0.2])
    q = Mixtures.draw(20_000, 4, each, np.random.default_rng(0)).among(np.ones(4, dtype=np.bool_))
    total = each.sum()
    assert np.allclose(q.mean(axis=0), each / total, atol=0.01)
    assert np.allclose(q.var(axis=0), each * (total - each) / total**2 / (total + 1), rtol=0.05)


def test_a_mixture_outlives_its_only_class() -> None:
    mixtures = Mixtures.draw(50, 10, 1e-5, np.random.default_rng(0))
    left = np.ones(10, dtype=np.bool_)
    for c in range(9):
        left[c] = False
        q = mixtures.among(left)
        assert np.allclose(q.sum(axis=1), 1.0)
        assert np.all(q[:, ~left] == 0)


def test_apportion_by_hand() -> None:
    assert apportion(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]  # 3.5, 2.1, 1.4
    assert apportion(np.array([0.0, 1.0]), 5).tolist() == [0, 5]


@given(weights=st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=30), total=st.integers(1, 1000))
def test_apportion_is_within_one_of_the_exact_share(weights: list[float], total: int) -> None:
    shares = np.array(weights) / np.sum(weights)
    counts = apportion(shares, total)
    assert counts.sum() == total
    assert np.all(np.abs(counts - total * shares) <= 1)


@given(
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    clients=st.integers(1, 3),
    per_client=st.integers(1, 2),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_shares_are_as_equal_as_any_assignment(sizes: list[int], clients: int, per_client: int, seed: int) -> None:
    target = sum(sizes) // clients
    assume(target >= per_client)
    dealt = deal_classes(np.array(sizes), clients, per_client, np.random.default_rng(seed))
    table = share(dealt, np.array(sizes), target)
    assert np.all(table.sum(axis=0) <= sizes)
    assert [sorted(np.flatnonzero(row)) for row in table] == [sorted(held) for held in dealt]
    assert sorted(table.sum(axis=1)) == most_equal(dealt, sizes, target)


def most_equal(dealt: list[list[int]], sizes: list[int], target: int) -> list[int]:
    """Try all assignments with at least one sample of each class held; the best smallest client first."""
    held = [(client, c) for client, classes in enumerate(dealt) for c in classes]
    best: list[int] = []
    for counts in itertools.product(*(range(1, sizes[c] + 1) for _, c in held)):
        table = np.zeros((len(dealt), len(sizes)), dtype=np.int64)
        for (client, c), count in zip(held, counts, strict=True):
            table[client, c] = count
        if np.all(table.sum(axis=0) <= sizes) and np.all(table.sum(axis=1) <= target):
            best = max(best, sorted(table.sum(axis=1).tolist()))
    return best


def test_a_chain_of_holders_makes_room() -> None:
    """Client 2 needs class 0: client 0 gives way and takes class 1, client 1 gives way and takes class 2."""
    table = share([[0, 1], [1, 2], [0]], np.array([5, 4, 3]), target=4)
    assert table.tolist() == [[1, 3, 0], [0, 1, 3], [4, 0, 0]]


def test_targets_of_their_own() -> None:
    table = share([[0], [0], [1]], np.array([9, 4]), target=np.array([2, 6, 9]))
    assert table.tolist() == [[2, 0], [6, 0], [0, 4]]


def test_classes_are_dealt_by_their_size() -> None:
    dealt = deal_by_size(np.array([50, 30, 19, 1]), 10, np.random.default_rng(0))
    assert np.bincount([c for [c] in dealt], minlength=4).tolist() == [5, 3, 2, 0]
