"""Clients as the data came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.data import Natural

LABELS = np.arange(60) % 3
GROUPS = {"coarse": LABELS // 2, "user": np.arange(60) * 7 % 11 + 100, "domain": np.arange(60) // 20}


def test_one_client_for_each() -> None:
    parts = Natural().divide(LABELS, GROUPS, None, seed=0)
    assert len(parts) == 11
    assert [set(GROUPS["user"][part]) for part in parts] == [{user} for user in range(100, 111)]
    assert sum(map(len, parts)) == 60


def test_by_domain() -> None:
    parts = Natural(by="domain").divide(LABELS, GROUPS, None, seed=0)
    assert [part.tolist() for part in parts] == [list(range(20)), list(range(20, 40)), list(range(40, 60))]


def test_fewer_clients_are_drawn_by_the_seed() -> None:
    drawn = [[GROUPS["user"][p[0]] for p in Natural().divide(LABELS, GROUPS, 4, seed)] for seed in range(8)]
    assert all(users == sorted(set(users)) and len(users) == 4 for users in drawn)
    assert len({tuple(users) for users in drawn}) > 4
    assert drawn[0] == [GROUPS["user"][p[0]] for p in Natural().divide(LABELS, GROUPS, 4, 0)]


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="no natural clients"):
        Natural().divide(LABELS, {"coarse": LABELS}, None, seed=0)
    with pytest.raises(ConfigError, match="unknown division 'domian'; did you mean 'domain'"):
        Natural(by="domian").divide(LABELS, GROUPS, None, seed=0)
    with pytest.raises(ConfigError, match="12 clients, but there are 11 by user"):
        Natural().divide(LABELS, GROUPS, 12, seed=0)


@pytest.mark.parametrize("users", [[0, 1], [[0], [1], [0], [1]], 3])
def test_a_group_must_have_a_number_for_each_sample(users: Any) -> None:
    with pytest.raises(ConfigError, match="'user' must be 4 numbers, one for each sample"):
        ff.partition([0, 1, 0, 1], "natural", groups={"user": users})
