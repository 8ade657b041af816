"""Identities and limits of FedSpeed, and of what FedDyn, FedSMOO and FedGMT share with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, Point, array, assert_close, network_setup, train_point
from methods.identities.shared import (
    EVERYONE,
    bowl,
    continued,
    coordinates,
    distance,
    each_state,
    few,
    fewer,
    fraction,
    one_round,
    plain_setup,
    prefixes,
    radius,
    train_id,
    vector,
)
from methods.naive import Vector, unit

penalty = st.floats(1, 50)

# --- FedDyn -----------------------------------------------------------------------------------------------


def test_a_client_without_a_dual_moves_as_in_fedprox() -> None:
    setup = network_setup(schedule=((0, 3), (1, 2)))
    w1 = vector("feddyn", replace(setup, schedule=((0, 3),)), alpha=0.4)
    run = train_id("feddyn", setup, alpha=0.4)
    for k in (1, 2):
        alone = replace(continued(setup, w1, 1), schedule=((k,),))
        assert_close(run.client_state(k)["h"], vector("fedprox", alone, mu=0.4) - w1, rel=1e-11)


# --- FedSpeed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalise", [True, False])
@given(lam=penalty, alpha=st.floats(0, 1))
@fewer
def test_fedspeed_with_radius_zero_is_feddyn(normalise: bool, lam: float, alpha: float) -> None:
    setup = network_setup()
    run = train_id("fedspeed", setup, rho=0.0, alpha=alpha, lam=lam, normalise=normalise)
    dyn = train_id("feddyn", setup, alpha=1 / lam)
    assert_close(run.vector, dyn.vector, rel=1e-12)
    assert_close(run.server_state["H"], dyn.server_state["H"], rel=1e-12)


@pytest.mark.parametrize("normalise", [True, False])
@given(lam=penalty, rho=radius)
@fewer
def test_fedspeed_with_alpha_zero_is_feddyn(normalise: bool, lam: float, rho: float) -> None:
    setup = network_setup()
    speed = vector("fedspeed", setup, rho=rho, alpha=0.0, lam=lam, normalise=normalise)
    assert_close(speed, vector("feddyn", setup, alpha=1 / lam), rel=1e-12)


@given(lam=penalty, rho=radius)
@fewer
def test_fedspeed_with_alpha_one_is_feddyn_with_sam(lam: float, rho: float) -> None:
    setup = network_setup()
    sam = vector("feddyn", setup, alpha=1 / lam, client_opt=ff.SAM(rho=rho))
    assert_close(vector("fedspeed", setup, rho=rho, alpha=1.0, lam=lam), sam, rel=1e-12)


@given(rho=radius, alpha=fraction)
@fewer
def test_the_first_step_of_fedspeed_mixes_both_gradients(rho: float, alpha: float) -> None:
    setup = one_round(local_epochs=1)
    plain, mixed, perturbed = (vector("fedspeed", setup, rho=rho, alpha=a) for a in (0.0, alpha, 1.0))
    assert_close(mixed, (1 - alpha) * plain + alpha * perturbed, rel=1e-13)


@given(w=coordinates, rho=st.floats(0.01, 0.5))
@few
def test_the_ascent_of_fedspeed_is_of_length_rho_or_rho_times_the_gradient(w: Vector, rho: float) -> None:
    lr, curvature, centre = 0.1, np.arange(1.0, 5.0), np.full(4, 3.0)
    g = curvature * (w - centre)
    for normalise, eps in ((True, rho * unit(g)), (False, rho * g)):
        method = ff.make("fedspeed", rho=rho, alpha=1.0, normalise=normalise, server_dual="active")
        run = train_point(method, Point(w), [bowl(centre, curvature)], lr=lr)
        # the new model is w + 2 Delta, Delta = -lr g(w + eps)
        assert_close(run.vector, w - 2 * lr * (g + curvature * eps), rel=1e-12)


@given(lam=penalty, rho=radius)
@fewer
def test_the_first_round_with_active_duals_doubles_the_mean_update(lam: float, rho: float) -> None:
    setup = network_setup(schedule=COHORTS[1:2], weighting="uniform")
    update = vector("fedprox", setup, mu=1 / lam, client_opt=ff.SAM(rho=rho)) - setup.w0
    run = train_id("fedspeed", setup, rho=rho, alpha=1.0, lam=lam, server_dual="active")
    assert_close(run.vector, setup.w0 + 2 * update, rel=1e-12)
    assert_close(naive.mean([array(run.client_state(k)["h"]) for k in COHORTS[1]]), update, rel=1e-11)
    everyone = vector("fedspeed", setup, rho=rho, alpha=1.0, lam=lam)
    assert_close(everyone, setup.w0 + (1 + len(COHORTS[1]) / setup.N) * update, rel=1e-12)


def test_with_everyone_active_duals_are_all_duals() -> None:
    setup = network_setup(schedule=(EVERYONE,) * 4)
    runs = [train_id("fedspeed", setup, rho=0.3, lam=3.0, server_dual=dual) for dual in ("all", "active")]
    assert_close(runs[1].vector, runs[0].vector, rel=1e-12)
    some = network_setup()
    runs = [train_id("fedspeed", some, rho=0.3, lam=3.0, server_dual=dual) for dual in ("all", "active")]
    assert distance(array(runs[0].vector), array(runs[1].vector)) > 1e-2
    assert "H" in runs[0].server_state
    assert "H" not in runs[1].server_state


def test_the_dual_of_fedspeed_is_the_sum_of_the_updates() -> None:
    setup = plain_setup(sizes=(6,), schedule=((0,),) * 4)
    sent, dual = setup.w0, setup.zeros()
    for part in prefixes(setup):
        run = train_id("fedspeed", part, rho=0.3, lam=3.0, server_dual="active")
        h = array(run.client_state(0)["h"])
        trained = array(run.vector) - h  # of one client: the new model is its model plus its dual
        assert_close(h, dual + trained - sent, rel=1e-11)
        sent, dual = array(run.vector), h


# --- FedSMOO ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@given(rho=radius, beta=penalty)
@fewer
def test_the_first_step_of_fedsmoo_is_fedspeed(variant: str, rho: float, beta: float) -> None:
    setup = network_setup(local_epochs=1, schedule=COHORTS[:1])
    smoo = train_id("fedsmoo", setup, rho=rho, beta=beta, variant=variant)
    speed = train_id("fedspeed", setup, rho=rho, alpha=1.0, lam=beta)
    assert_close(smoo.vector, speed.vector, rel=1e-13)
    for a, b in zip(each_state(smoo, "h", setup), each_state(speed, "h", setup), strict=True):
        assert_close(a, b, rel=1e-12)


@given(rho=radius)
@fewer
def test_the_first_step_of_fedsmoo_without_the_server_dual_is_fedsam(rho: float) -> None:
    setup = one_round(local_epochs=1)
    moved = vector("fedsmoo", setup, rho=rho, beta=1e12) - setup.w0
    update = vector("fedsam", setup, rho=rho) - setup.w0
    assert_close(moved, (1 + len(COHORTS[0]) / setup.N) * update, rel=1e-11)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@given(w=coordinates, rho=st.floats(0.05, 1), beta=penalty)
@fewer
def test_fedsmoo_of_one_client_step_by_step(variant: str, w: Vector, rho: float, beta: float) -> None:
    lr, K, curvature, centre = 0.1, 2, np.arange(1.0, 5.0), np.full(4, 3.0)
    method = ff.make("fedsmoo", rho=rho, beta=beta, variant=variant)
    run = train_point(method, Point(w), [bowl(centre, curvature)], rounds=3, lr=lr, local_epochs=K)
    h, mu, s = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(3):
        v = w
        for _ in range(K):
            eps = rho * unit(curvature * (v - centre) - mu - s)
            mu = mu + eps - s
            v = v - lr * (curvature * (v + eps - centre) + (v - w + h) / beta)
        h = h + v - w
        w = v + h
        s = rho * unit({"A": mu - eps, "B": mu, "C": -mu}[variant])
    assert_close(run.vector, w, rel=1e-10)
    assert_close(run.server_state["s"], s, rel=1e-9)
    assert_close(run.client_state(0)["mu"], mu, rel=1e-9)


# --- FedGMT -----------------------------------------------------------------------------------------------


def test_with_everyone_the_active_duals_of_fedgmt_are_all_duals() -> None:
    setup = network_setup(schedule=(EVERYONE,) * 4, weighting="uniform")
    runs = [train_id("fedgmt", setup, beta=4.0, server_dual=dual) for dual in ("all", "active")]
    assert_close(runs[1].vector, runs[0].vector, rel=1e-12)
    assert "H" not in runs[1].server_state
    some = [vector("fedgmt", network_setup(), beta=4.0, server_dual=dual) for dual in ("all", "active")]
    assert distance(*some) > 1e-2


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_the_first_round_of_fedgmt_with_active_duals_doubles_the_mean_update(weighting: str) -> None:
    setup = network_setup(schedule=COHORTS[1:2], weighting=weighting)
    run = train_id("fedgmt", setup, server_dual="active")
    p = naive.weights(setup, COHORTS[1])
    update = sum(p[k] * array(run.client_state(k)["h"]) for k in COHORTS[1])
    assert_close(run.vector, setup.w0 + 2 * update, rel=1e-12)


def test_fedgmt_without_distillation_starts_as_fedavg_with_the_server_dual() -> None:
    setup = one_round()
    update = vector("fedavg", setup) - setup.w0
    assert_close(vector("fedgmt", setup, gamma=0.0), setup.w0 + (1 + len(COHORTS[0]) / setup.N) * update, rel=1e-12)


@given(gamma=st.floats(0.1, 3), tau=st.floats(0.5, 5))
@fewer
def test_the_distillation_pulls_the_student_and_not_the_teacher(gamma: float, tau: float) -> None:
    """The second step of the first round: the teacher is still w0, the student no longer."""
    setup = plain_setup(schedule=((3,),), local_epochs=2)
    x, _ = setup.clients[3]
    w1 = setup.w0 - setup.lr * setup.g(3, setup.w0)
    q = setup.g(3, w1) + gamma * tau**2 * naive.kl_gradient(w1, setup.w0, x, tau)
    run = train_id("fedgmt", setup, gamma=gamma, tau=tau, alpha=1.0)
    assert_close(run.client_state(3)["h"], w1 - setup.lr * q - setup.w0, rel=1e-9)
    assert_close(run.server_state["teacher"], setup.w0, rel=1e-15)
