"""Identities and limits of AdaBest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import COHORTS, Point, array, assert_close, linear, network_setup, repeated_sample_setup, train_point
from methods.identities.shared import (
    OPTIMISERS,
    any_opt,
    continued,
    distance,
    few,
    fewer,
    fraction,
    plain_setup,
    slope,
    train_id,
    vector,
)


@any_opt
def test_adabest_without_both_is_fedavg(opt: str) -> None:
    setup, chosen = network_setup(weighting="uniform"), OPTIMISERS[opt]()
    best = vector("adabest", setup, beta=0.0, mu=0.0, client_opt=chosen)
    assert_close(best, vector("fedavg", setup, client_opt=chosen), rel=1e-12)


@given(beta=fraction)
@fewer
def test_without_mu_adabest_extrapolates_the_mean(beta: float) -> None:
    setup = network_setup(weighting="uniform")
    w, mean = setup.w0, setup.w0  # the mean before the first round is the first model
    for t in range(3):
        fresh = vector("fedavg", continued(setup, w, t))
        w, mean = fresh + beta * (fresh - mean), fresh
    run = train_id("adabest", replace(setup, schedule=COHORTS[:3]), beta=beta, mu=0.0)
    assert_close(run.vector, w)
    assert_close(run.server_state["mean"], mean)


@given(mu=st.floats(0.01, 0.5))
@fewer
def test_the_correction_of_a_client_that_never_rests_is_the_sum_of_its_updates(mu: float) -> None:
    setup = plain_setup(sizes=(6,), schedule=((0,),) * 5)
    run = train_id("adabest", setup, beta=0.0, mu=mu)
    # of one client and without extrapolation each update begins where the last one ended
    assert_close(run.client_state(0)["h"], mu * (setup.w0 - array(run.vector)), rel=1e-11)


@given(asked=st.lists(st.booleans(), min_size=2, max_size=8), mu=st.floats(0.05, 1))
@few
def test_the_correction_is_divided_by_the_rounds_since_the_client_was_last_asked(asked: list[bool], mu: float) -> None:
    g, lr, K = np.array([1.0, -2.0]), 0.1, 3
    schedule = [(0, 1) if present else (1,) for present in asked]
    local = {"loss": linear, "lr": lr, "local_epochs": K}
    clients = [slope(g), slope(np.zeros(2))]
    run = train_point(ff.make("adabest", mu=mu), Point(np.zeros(2)), clients, schedule=schedule, **local)
    h, last = np.zeros(2), 0
    for t, present in enumerate(asked, start=1):
        if present:
            h, last = h / (t - last) + mu * lr * K * (g - h), t
    assert_close(run.client_state(0)["h"], h, rel=1e-12)


def test_a_client_that_rests_for_two_rounds_keeps_a_third_of_its_correction() -> None:
    g, clients = np.array([1.0, -2.0]), [slope(np.array([1.0, -2.0])), slope(np.zeros(2))]
    schedule = [(0,), (1,), (1,), (0,)]
    run = train_point(ff.make("adabest", mu=1.0), Point(np.zeros(2)), clients, schedule=schedule, loss=linear)
    first = 0.1 * g
    assert_close(run.client_state(0)["h"], first / 3 + 0.1 * (g - first), rel=1e-12)


@pytest.mark.parametrize("batch_size", [None, 9])
def test_per_step_scaling_is_the_paper_s_where_an_epoch_is_one_batch(batch_size: int | None) -> None:
    setup = network_setup(batch_size=batch_size)
    scaled = vector("adabest", setup, mu=0.3, mu_scaling="per-step")
    assert_close(scaled, vector("adabest", setup, mu=0.3, mu_scaling="paper"), rel=1e-13)


def test_per_step_scaling_divides_mu_by_the_batches_of_an_epoch() -> None:
    setup = repeated_sample_setup(sizes=(5, 6, 6, 5, 6, 5), batch_size=2)  # three batches each
    scaled = vector("adabest", setup, mu=0.6, mu_scaling="per-step")
    assert_close(scaled, vector("adabest", setup, mu=0.2), rel=1e-12)
    assert distance(scaled, vector("adabest", setup, mu=0.6)) > 1e-4
