"""Pachinko allocation: coarse labels, then fine ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatfed.core.errors import ConfigError
from flatfed.data import PAM, describe
from flatfed.data.partition import class_counts

FINE = np.repeat(np.arange(100), 500)
COARSE = np.arange(100) * 7 % 20


def groups(fine: np.ndarray = FINE, parents: np.ndarray = COARSE) -> dict[str, np.ndarray]:
    return {"coarse": parents[fine]}


def test_five_hundred_clients_of_a_hundred_images() -> None:
    parts = PAM().divide(FINE, groups(), None, seed=0)
    assert describe(parts, FINE)["samples_per_client"] == {"mean": 100.0, "min": 100, "max": 100}
    assert len(parts) == 500
    assert len(np.unique(np.concatenate(parts))) == 50_000


def test_the_first_clients_have_the_number_of_classes_that_the_formulas_say() -> None:
    """No label is near its end for the first 50 clients, so that draws are independent.

    A label that a client draws with probability q ~ Beta(a, b) is missing from n draws with probability
    `E (1 - q)^n = Gamma(b + n) Gamma(a + b) / (Gamma(a + b + n) Gamma(b))`.
    """

    def missing(a: float, b: float, n: int) -> float:
        return math.exp(math.lgamma(b + n) + math.lgamma(a + b) - math.lgamma(a + b + n) - math.lgamma(b))

    held = []
    for seed in range(8):
        table = class_counts(PAM().divide(FINE, groups(), None, seed)[:50], FINE)
        coarse = np.stack([table[:, c == COARSE].sum(axis=1) for c in range(20)], axis=1)
        held.append((coarse > 0).sum(axis=1))
    expected = 20 * (1 - missing(0.1, 1.9, 100))
    assert abs(np.mean(held) - expected) < 4 * np.std(held) / np.sqrt(np.size(held))
    assert 6.5 < expected < 7.5


def naive(
    sizes: np.ndarray,
    parents: np.ndarray,
    coarse: np.ndarray,
    fine: np.ndarray,
    size: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Client after client, sample after sample: a coarse label, then a fine one, of what is not exhausted."""
    left, table = sizes.copy(), np.zeros((len(coarse), len(sizes)), dtype=np.int64)
    for client in range(len(coarse)):
        for _ in range(size):
            weights = np.array([coarse[client, c] * (left[parents == c].sum() > 0) for c in range(parents.max() + 1)])
            c = generator.choice(len(weights), p=weights / weights.sum())
            inner = np.where((parents == c) & (left > 0), fine[client], 0.0)
            chosen = generator.choice(len(sizes), p=inner / inner.sum())
            table[client, chosen] += 1
            left[chosen] -= 1
    return table


def test_drawing_in_two_stages_has_the_law_of_one_by_one() -> None:
    """Few samples, so that fine labels run out and coarse ones do; moments over many draws."""
    sizes, parents, size, runs = np.array([3, 2, 4, 3]), np.array([0, 0, 1, 1]), 4, 1500
    rule, generator = PAM(alpha=1.0, beta=2.0), np.random.default_rng(0)
    fast = [rule._draw(sizes, parents, 3, generator) for _ in range(runs)]
    slow = []
    for _ in range(runs):
        coarse = generator.dirichlet([1.0, 1.0], 3)
        fine = np.concatenate([generator.dirichlet([2.0, 2.0], 3), generator.dirichlet([2.0, 2.0], 3)], axis=1)
        slow.append(naive(sizes, parents, coarse, fine, size, generator))
    for moment in (1, 2):
        difference = np.mean(np.power(fast, moment), axis=0) - np.mean(np.power(slow, moment), axis=0)
        noise = np.sqrt((np.power(fast, moment).var(axis=0) + np.power(slow, moment).var(axis=0)) / runs)
        assert np.all(np.abs(difference) < 4 * noise)


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    parents=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=100, deadline=None)
def test_a_true_partition(counts: list[int], parents: list[int], share: float, seed: int) -> None:
    fine = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    clients = 1 + round(share * (len(fine) - 1))
    parts = PAM().divide(fine, groups(fine, np.array(parents)), clients, seed)
    used = np.concatenate(parts)
    assert {len(part) for part in parts} == {len(fine) // clients}
    assert len(np.unique(used)) == len(used)
    again = PAM().divide(fine, groups(fine, np.array(parents)), clients, seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


def test_the_seed_decides() -> None:
    first, other = (PAM().divide(FINE, groups(), None, seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="pam: the data has no coarse labels"):
        PAM().divide(FINE, {"user": FINE}, None, seed=0)
    with pytest.raises(ConfigError, match="pam: the data has no coarse labels"):
        PAM().split(FINE, 100, seed=0)
    crossed = np.where(np.arange(len(FINE)) == 777, 19, COARSE[FINE])
    with pytest.raises(ConfigError, match="one coarse label, but 1 lies in several"):
        PAM().divide(FINE, {"coarse": crossed}, None, seed=0)
    with pytest.raises(ConfigError, match="500 clients cannot share 100 samples"):
        PAM().divide(FINE[::500], groups(FINE[::500]), None, seed=0)
    with pytest.raises(ConfigError, match="alpha must be greater than 0"):
        PAM(alpha=0.0)
