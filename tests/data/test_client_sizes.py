"""Clients of unequal size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatfed.data import Dirichlet, DirichletPerClass, Partitioner
from flatfed.data.partition import class_counts
from flatfed.data.partition.dirichlet import client_sizes

CIFAR10 = np.repeat(np.arange(10), 5000)


@given(clients=st.integers(1, 60), more=st.integers(0, 5000), sigma=st.floats(0.001, 10.0), seed=st.integers(0, 2**31))
@settings(max_examples=200, deadline=None)
def test_all_samples_are_used_and_everyone_has_one(clients: int, more: int, sigma: float, seed: int) -> None:
    sizes = client_sizes(clients + more, clients, sigma, np.random.default_rng(seed))
    assert sizes.sum() == clients + more
    assert sizes.min() >= 1


def test_sizes_are_log_normal() -> None:
    sizes = client_sizes(5_000_000, 5000, 0.5, np.random.default_rng(0))
    logs = np.log(sizes)
    assert abs(logs.std() - 0.5) < 0.02
    assert abs(np.median(sizes) / sizes.mean() - np.exp(-(0.5**2) / 2)) < 0.03
    ordered = np.sort((logs - logs.mean()) / logs.std())
    assert np.allclose(ordered[[113, 793, 4206, 4886]], [-2, -1, 1, 2], atol=0.12)


def test_no_spread_is_equal_sizes() -> None:
    assert set(client_sizes(1437, 100, 0.0, np.random.default_rng(0))) == {14}


@pytest.mark.parametrize("rule", [Dirichlet(alpha=0.5, size_sigma=0.7), DirichletPerClass(beta=0.5, size_sigma=0.7)])
def test_a_partition_with_unequal_sizes(rule: Partitioner) -> None:
    parts = rule.split(CIFAR10, 100, seed=1)
    sizes = np.array([len(part) for part in parts])
    assert sizes.sum() == 50_000
    assert 0.5 < np.log(sizes).std() < 0.9


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_sizes_do_not_change_the_mixes(sigma: float) -> None:
    """The mean share of a client's largest class, by the law of the mixes, not of the sizes."""
    shares = []
    for seed in range(6):
        table = class_counts(Dirichlet(alpha=1.0, size_sigma=sigma).split(CIFAR10, 100, seed), CIFAR10)
        shares.append(float((table.max(axis=1) / table.sum(axis=1)).mean()))
    assert abs(np.mean(shares) - 0.676) < 0.04


def test_one_class_each_with_unequal_sizes() -> None:
    """A class that its clients would exhaust is shared as far as it goes; nobody goes without."""
    parts = Dirichlet(alpha=0.0, size_sigma=1.0).split(CIFAR10, 100, seed=0)
    table = class_counts(parts, CIFAR10)
    assert ((table > 0).sum(axis=1) == 1).all()
    assert (table.sum(axis=0) <= 5000).all()
    assert table.sum(axis=1).std() > 200
