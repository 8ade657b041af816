"""Identities and limits of WIMA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import Point, array, assert_close, linear, network_setup, train_network, train_point
from methods.identities.shared import METHODS, each_method, fewer, prefixes, slope


@each_method
def test_wima_leaves_the_trajectory_alone(method: str) -> None:
    setup, made = network_setup(), ff.make(method, **METHODS[method])
    averaged, plain = train_network(made, setup, average=ff.WIMA(window=3)), train_network(made, setup)
    assert torch.equal(averaged.vector, plain.vector)
    assert not torch.equal(averaged.eval_vector, averaged.vector)
    for a, b in zip(averaged.history, plain.history, strict=True):
        assert all(a[name] == b[name] for name in ("lr", "train_loss", "bytes_down", "bytes_up", "backprops"))


@pytest.mark.parametrize("method", ["fedavg", "feddyn", "fedwmsam", "fedgmt"])
def test_a_window_of_one_is_the_method_itself(method: str) -> None:
    setup, made = network_setup(), ff.make(method)
    one, plain = (
        train_network(made, setup, average=ff.WIMA(window=1), evaluate_every=1),
        train_network(made, setup, evaluate_every=1),
    )
    assert torch.equal(one.eval_vector, plain.vector)
    assert [row["test_loss"] for row in one.history] == [row["test_loss"] for row in plain.history]


@pytest.mark.parametrize("window", [2, 3, 4, 100])
def test_the_evaluated_model_is_the_mean_of_the_last_ones(window: int) -> None:
    models = []
    for part in prefixes(network_setup()):
        run = train_network(ff.make("fedavg"), part, average=ff.WIMA(window=window))
        models.append(array(run.vector))  # the initial model is never among them
        assert_close(run.eval_vector, naive.mean(models[-window:]), rel=1e-13)
        assert run.history[-1]["model_norm"] == pytest.approx(float(run.eval_vector.norm()), rel=1e-12)


@given(rounds=st.integers(1, 30), window=st.integers(1, 12))
@fewer
def test_the_last_models_weigh_the_same_and_the_others_nothing(rounds: int, window: int) -> None:
    """Client t pushes coordinate t alone, by 1, in round t alone."""
    eye = np.eye(rounds)
    run = train_point(
        ff.make("fedavg"),
        Point(np.zeros(rounds)),
        [slope(-eye[t], n=1) for t in range(rounds)],
        schedule=[(t,) for t in range(rounds)],
        loss=linear,
        lr=1.0,
        average=ff.WIMA(window=window),
    )
    later = np.append(array(run.eval_vector), 0.0)
    weights = np.zeros(rounds)
    weights[-window:] = 1 / min(window, rounds)
    np.testing.assert_allclose(later[:-1] - later[1:], weights, atol=1e-12)


def test_a_long_run_does_not_let_the_mean_drift() -> None:
    g = np.array([1.0, -2.0])
    run = train_point(ff.make("fedavg"), Point(g), [slope(g)], rounds=300, loss=linear, average=ff.WIMA(window=7))
    assert_close(run.eval_vector, array(run.vector) + 0.1 * g * 3, rel=1e-12)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ff.ConfigError, match="window"):
        ff.WIMA(window=0)
