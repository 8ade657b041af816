"""Classes that become rarer and rarer."""

from __future__ import annotations

import numpy as np
import pytest

from flatfed.core.errors import ConfigError
from flatfed.data import Dirichlet, LongTail, describe
from flatfed.data.partition import class_counts
from flatfed.data.partition.long_tail import thinned

CIFAR10 = np.repeat(np.arange(10), 5000)
CIFAR100 = np.repeat(np.arange(100), 500)


def test_the_profile_of_cifar_lt() -> None:
    """The class sizes commonly quoted for CIFAR-10-LT, and the totals for both."""
    kept = thinned(np.full(10, 5000), 100.0)
    assert kept.tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert thinned(np.full(100, 500), 100.0).sum() == 10_847
    assert thinned(np.full(10, 5000), 10.0).sum() == 20_431
    assert thinned(np.full(10, 5000), 1.0).tolist() == [5000] * 10


def test_no_class_grows_or_vanishes() -> None:
    assert thinned(np.array([30, 7, 40, 1]), 1e6).tolist() == [30, 1, 1, 1]
    assert thinned(np.array([5]), 100.0).tolist() == [5]


@pytest.mark.parametrize("inner", ["dirichlet", "dirichlet-per-class"])
def test_what_stays_is_divided(inner: str) -> None:
    parts = LongTail(alpha=1.0, inner=inner).split(CIFAR10, 100, seed=0)
    counts = class_counts(parts, CIFAR10).sum(axis=0)
    kept = thinned(np.full(10, 5000), 100.0)
    assert (counts <= kept).all()
    assert counts.sum() == 12_400 == describe(parts, CIFAR10)["samples"]  # of 12,406
    assert {len(part) for part in parts} == {124}


def test_rare_classes_are_not_taken_by_the_first_clients() -> None:
    tables = [class_counts(LongTail(alpha=10.0).split(CIFAR10, 100, seed), CIFAR10) for seed in range(5)]
    halves = np.array([[table[:50].sum(axis=0), table[50:].sum(axis=0)] for table in tables]).sum(axis=0)
    rare = halves[:, 5:].sum(axis=1)
    assert 0.6 < rare[0] / rare[1] < 1.7


def test_no_imbalance_is_the_inner_rule() -> None:
    """On balanced data; the seed is keyed by the rule, so that laws agree, not draws."""
    held = {
        rule.id: np.mean(
            [describe(rule.split(CIFAR10, 100, s), CIFAR10)["classes_per_client"]["mean"] for s in range(6)]
        )
        for rule in (LongTail(imbalance=1.0, alpha=0.5), Dirichlet(alpha=0.5))
    }
    assert abs(held["long-tail"] - held["dirichlet"]) < 0.3


def test_one_class_each() -> None:
    parts = LongTail(alpha=0.0).split(CIFAR10, 100, seed=0)
    table = class_counts(parts, CIFAR10)
    assert ((table > 0).sum(axis=1) == 1).all()
    assert (table > 0).sum(axis=0).tolist() == [40, 24, 15, 9, 5, 3, 2, 1, 1, 0]


def test_sizes_may_differ() -> None:
    parts = LongTail(size_sigma=0.5).split(CIFAR100, 50, seed=0)
    sizes = np.array([len(part) for part in parts])
    assert sizes.sum() == 10_847
    assert sizes.std() > 50


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="20 clients cannot share the 14 samples that an imbalance of 100 leaves"):
        LongTail().split(np.repeat([0, 1, 2, 3], 10), 20, seed=0)
    with pytest.raises(ConfigError, match="imbalance must be at least 1"):
        LongTail(imbalance=0.01)
    with pytest.raises(ConfigError, match="alpha must be greater than 0 with inner dirichlet-per-class"):
        LongTail(alpha=0.0, inner="dirichlet-per-class")
