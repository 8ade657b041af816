"""Identities and limits of VaSSO and Friendly SAM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import COHORTS, Point, array, assert_close, linear, network_setup, train_network, train_point
from methods.identities.shared import (
    TAKE_A_CLIENT_OPT,
    bowl,
    coordinates,
    distance,
    few,
    fewer,
    fraction,
    plain_setup,
    radius,
    slope,
    train_id,
    vector,
)
from methods.naive import Vector, unit

CURVATURE = np.arange(1.0, 5.0)
CENTRE = np.array([3.0, -2.0, 1.0, 0.5])
LR = 0.1


def gradient(w: Vector) -> Vector:
    return CURVATURE * (w - CENTRE)


def trained(opt: Any, w: Vector, steps: int) -> Vector:
    run = train_point(ff.make("fedavg", client_opt=opt), Point(w), [bowl(CENTRE, CURVATURE)], local_epochs=steps, lr=LR)
    return array(run.vector)


@pytest.mark.parametrize("method", TAKE_A_CLIENT_OPT)
def test_vasso_that_forgets_at_once_and_friendly_sam_that_subtracts_nothing_are_sam(method: str) -> None:
    setup, params = network_setup(batch_size=3, local_epochs=2, schedule=COHORTS[:3]), TAKE_A_CLIENT_OPT[method]
    sam = vector(method, setup, **params, client_opt=ff.SAM(rho=0.3))
    for opt in (ff.VaSSO(rho=0.3, theta=1.0), ff.FriendlySAM(rho=0.3, sigma=0.0)):
        assert_close(vector(method, setup, **params, client_opt=opt), sam, rel=1e-12)


@given(rho=radius, theta=fraction, sigma=st.floats(0, 1), lam=fraction)
@fewer
def test_both_start_anew_in_every_round(rho: float, theta: float, sigma: float, lam: float) -> None:
    setup = network_setup(local_epochs=1)
    sam = vector("fedavg", setup, client_opt=ff.SAM(rho=rho))
    for opt in (ff.VaSSO(rho=rho, theta=theta), ff.FriendlySAM(rho=rho, sigma=sigma, lam=lam)):
        assert_close(vector("fedavg", setup, client_opt=opt), sam, rel=1e-13)


def test_both_differ_from_sam_after_the_first_step() -> None:
    setup = plain_setup()
    sam = vector("fedavg", setup, client_opt=ff.SAM(rho=0.3))
    for opt in (ff.VaSSO(rho=0.3, theta=0.5), ff.FriendlySAM(rho=0.3)):
        assert distance(vector("fedavg", setup, client_opt=opt), sam) > 1e-4


@given(w=coordinates, rho=radius, theta=fraction, steps=st.integers(2, 4))
@few
def test_vasso_climbs_along_the_smoothed_gradient(w: Vector, rho: float, theta: float, steps: int) -> None:
    v, d = w, gradient(w)
    for step in range(steps):
        d = d if step == 0 else (1 - theta) * d + theta * gradient(v)
        v = v - LR * gradient(v + rho * unit(d))
    assert_close(trained(ff.VaSSO(rho=rho, theta=theta), w, steps), v, rel=1e-11)


@given(w=coordinates, rho=radius, theta=st.sampled_from([1e-13]))
@fewer
def test_vasso_with_vanishing_theta_keeps_the_first_direction(w: Vector, rho: float, theta: float) -> None:
    v, d = w, unit(gradient(w))
    for _ in range(3):
        v = v - LR * gradient(v + rho * d)
    assert_close(trained(ff.VaSSO(rho=rho, theta=theta), w, 3), v, rel=1e-9)


def friendly(w: Vector, rho: float, sigma: float, lam: float, steps: int, updated: bool) -> Vector:
    """Friendly SAM that subtracts the previous mean of gradients, or the updated one."""
    v, m = w, gradient(w)
    for step in range(steps):
        g = gradient(v)
        fresh = lam * m + (1 - lam) * g
        subtracted = fresh if updated else m
        v = v - LR * gradient(v + rho * unit(g if step == 0 else g - sigma * subtracted))
        m = fresh
    return v


@given(w=coordinates, rho=radius, lam=fraction)
@few
def test_friendly_sam_with_sigma_one_is_the_same_with_the_previous_and_the_updated_mean(
    w: Vector, rho: float, lam: float
) -> None:
    run = trained(ff.FriendlySAM(rho=rho, sigma=1.0, lam=lam), w, 4)
    assert_close(run, friendly(w, rho, 1.0, lam, 4, updated=False), rel=1e-9)
    assert_close(run, friendly(w, rho, 1.0, lam, 4, updated=True), rel=1e-9)


@given(w=coordinates, rho=radius, sigma=st.floats(0.1, 0.9), lam=fraction)
@few
def test_subtracting_the_updated_mean_is_subtracting_less_of_the_previous(
    w: Vector, rho: float, sigma: float, lam: float
) -> None:
    effective = sigma * lam / (1 - sigma * (1 - lam))
    run = trained(ff.FriendlySAM(rho=rho, sigma=effective, lam=lam), w, 4)
    assert_close(run, friendly(w, rho, sigma, lam, 4, updated=True), rel=1e-9)


@pytest.mark.parametrize("name", ["VaSSO", "FriendlySAM"])
def test_radius_zero_is_sgd_with_two_backprops(name: str) -> None:
    setup = network_setup()
    run = train_id("fedavg", setup, client_opt=getattr(ff, name)(rho=0.0))
    plain = train_id("fedavg", setup)
    np.testing.assert_array_equal(array(run.vector), array(plain.vector))
    assert [row["backprops"] for row in run.history] == [2 * row["backprops"] for row in plain.history]


@pytest.mark.parametrize("name", ["VaSSO", "FriendlySAM"])
def test_weights_are_restored_bit_for_bit(name: str) -> None:
    setup = plain_setup(lr=1e-300, schedule=((0,), (1,), (3,)))
    method = ff.make("fedavg", client_opt=getattr(ff, name)(rho=0.5))
    np.testing.assert_array_equal(array(train_network(method, setup).vector), setup.w0)


@pytest.mark.parametrize("name", ["VaSSO", "FriendlySAM"])
def test_a_zero_gradient_perturbs_nothing(name: str) -> None:
    w, local = np.array([1.0, -2.0]), {"lr": 0.1, "weight_decay": 0.3, "local_epochs": 3}
    method = ff.make("fedavg", client_opt=getattr(ff, name)(rho=0.5))
    run = train_point(method, Point(w), [slope(np.zeros(2))], loss=linear, **local)
    assert_close(run.vector, w * (1 - 0.03) ** 3, rel=1e-15)


def test_friendly_sam_on_a_constant_gradient_has_nothing_left_to_climb() -> None:
    g = np.array([1.0, -2.0])
    method = ff.make("fedavg", client_opt=ff.FriendlySAM(rho=0.5, sigma=1.0))
    run = train_point(method, Point(np.zeros(2)), [slope(g)], loss=linear, local_epochs=3)
    assert_close(run.vector, -0.3 * g, rel=1e-14)
