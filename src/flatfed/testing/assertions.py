"""What must hold of a run of the battery: agreement with the naive computation, bytes, backprops, and equal bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from flatfed.testing.bench import array, assert_close, held, same_state
from flatfed.testing.naive.model import DIMENSION, SHAPES
from flatfed.testing.naive.outcome import Outcome

SCALARS = 64
"""Bytes that scalars may add per client, exchange and direction."""


def assert_agrees(run: Any, expected: Outcome) -> None:
    """Refuse a run that is not what the naive computation gives: models, and the states that it names."""
    assert_close(run.vector, expected.vector)
    assert_close(run.eval_vector, expected.eval_vector)
    for name, per_client in expected.client.items():
        for k, value in enumerate(per_client):
            assert_close(held(run.client_state(k), name, array(value)), value)
    for name, value in expected.server.items():
        assert_close(held(run.server_state, name, array(value)), value)


def assert_traffic(
    run: Any,
    cohorts: Sequence[Sequence[int]],
    down: Callable[[int], int],
    up: int,
    exchanges: int = 1,
    per_tensor: int = 0,
) -> None:
    """Refuse bytes that are not those of n model-sized vectors per client and round, and of a few scalars.

    `per_tensor` vectors with one number for each tensor of the model may come to them, each way.
    """
    itemsize = run.vector.dtype.itemsize
    for t, (row, cohort) in enumerate(zip(run.history, cohorts, strict=True)):
        one, small = DIMENSION * itemsize * len(cohort), per_tensor * len(SHAPES) * itemsize
        spare = (SCALARS + small) * exchanges * len(cohort)
        for direction, vectors in (("down", down(t)), ("up", up)):
            beyond = row[f"bytes_{direction}"] - vectors * one
            assert 0 <= beyond <= spare, (
                f"round {t}: {row[f'bytes_{direction}']} bytes {direction}, not {vectors} vectors"
            )


def assert_backprops(run: Any, cohorts: Sequence[Sequence[int]], per_client: int) -> None:
    """Refuse another number of backprops than this many per client and round."""
    counted = [row["backprops"] for row in run.history]
    assert counted == [per_client * len(cohort) for cohort in cohorts], f"{counted} backprops"


def assert_same_run(a: Any, b: Any, clients: int) -> None:
    """Refuse runs that differ in a bit of the model or of what server and clients keep."""
    assert torch.equal(a.vector, b.vector), "the models differ"
    assert torch.equal(a.eval_vector, b.eval_vector), "the evaluated models differ"
    assert same_state(a.server_state, b.server_state), "what the server keeps differs"
    for k in range(clients):
        assert same_state(a.client_state(k), b.client_state(k)), f"what client {k} keeps differs"
