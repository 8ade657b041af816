"""Every method gives the same bits on any number of workers: on two, and in `make battery` on one.

That the number does not matter is shown by `engines/test_exactness.py`.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

import flatfed as ff
from engines.bench import assert_same
from flatfed.core.method.algorithm import Algorithm
from methods.designs import marked
from methods.wire import COHORTS, METHODS, SETTINGS, LeavesOnItself, average, everything, make_task, rich

ROUNDS = 3


def trained(method: Algorithm, workers: int) -> dict[str, Any]:
    settings = {"rounds": ROUNDS, "sampling": ff.Replay(COHORTS), "average": average("swa"), **SETTINGS}
    return everything(ff.train(make_task("BatchNorm local"), method, workers=workers, **settings))


@functools.cache
def alone(method: str) -> dict[str, Any]:
    """What comes of a method without workers."""
    return trained(rich(method), 0)


@marked("method, workers", [(id, n) for id in METHODS for n in (1, 2)], [(id, 2) for id in METHODS])
def test_every_method_gives_the_same_bits_on_workers(method: str, workers: int) -> None:
    actual = trained(rich(method), workers)
    assert (actual["status"], len(actual["history"])) == ("finished", ROUNDS)
    assert_same(actual, alone(method))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_method_that_keeps_something_on_itself_is_exposed(workers: int) -> None:
    assert trained(LeavesOnItself(), workers)["vector"] != trained(LeavesOnItself(), 0)["vector"]
