"""The local step: clip, weight decay, momentum, learning rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import Point, array, assert_close, linear, train_point
from methods.identities.shared import bowl, coordinates, distance, each_opt, few, opt_named, plain_setup, slope, vector
from methods.naive import Vector, norm, unit


@given(g=coordinates, w=coordinates, clip=st.floats(0.05, 10), wd=st.floats(0, 0.5), mu=st.floats(0, 0.95))
@few
def test_a_step_clips_then_decays_then_goes_through_momentum(
    g: Vector, w: Vector, clip: float, wd: float, mu: float
) -> None:
    q = g * min(1.0, clip / norm(g))
    d1 = q + wd * w
    w1 = w - 0.1 * d1
    expected = w1 - 0.1 * (mu * d1 + q + wd * w1)
    local = {"local_epochs": 2, "clip": clip, "weight_decay": wd, "momentum": mu}
    run = train_point(ff.make("fedavg"), Point(w), [slope(g)], loss=linear, **local)
    assert_close(run.vector, expected, rel=1e-13)


def test_clipping_is_exact_down_to_the_norm_itself() -> None:
    g = np.array([3.0, 4.0])
    run = train_point(ff.make("fedavg"), Point(np.zeros(2)), [slope(g)], loss=linear, clip=2.5, lr=1.0)
    np.testing.assert_allclose(array(run.vector), -g / 2, rtol=1e-15)
    run = train_point(ff.make("fedavg"), Point(np.zeros(2)), [slope(g)], loss=linear, clip=5.0, lr=1.0)
    np.testing.assert_array_equal(array(run.vector), -g)


def test_correction_terms_are_clipped_with_the_gradient() -> None:
    g, clip, lr, mu = np.array([1.0, 0.0]), 0.5, 1.0, 3.0
    method = ff.make("fedprox", mu=mu)
    local = {"lr": lr, "clip": clip, "local_epochs": 2}
    run = train_point(method, Point(np.zeros(2)), [slope(g)], loss=linear, **local)
    first = -clip * g
    q = g + mu * first
    assert_close(run.vector, first - lr * q * min(1.0, clip / norm(q)), rel=1e-14)


def test_the_ascent_gradient_is_not_clipped() -> None:
    w, lr, clip, rho = np.array([3.0, 4.0]), 0.1, 0.5, 0.2
    run = train_point(ff.make("fedsam", rho=rho), Point(w), [bowl(np.zeros(2))], lr=lr, clip=clip)
    assert_close(run.vector, w - lr * clip * unit(w), rel=1e-14)
    tilted = np.array([4.0, 1.0])
    run = train_point(ff.make("fedsam", rho=rho), Point(w), [bowl(np.zeros(2), tilted)], lr=lr, clip=clip)
    at_perturbed = tilted * (w + rho * unit(tilted * w))
    assert_close(run.vector, w - lr * clip * unit(at_perturbed), rel=1e-14)


def test_the_momentum_buffer_starts_from_zero_every_round() -> None:
    setup = plain_setup(local_epochs=1)
    assert_close(vector("fedavg", replace(setup, momentum=0.9)), vector("fedavg", setup), rel=1e-13)
    one_long_round = plain_setup(local_epochs=2, momentum=0.9, schedule=((1,),))
    two_rounds = plain_setup(local_epochs=1, momentum=0.9, schedule=((1,), (1,)))
    assert distance(vector("fedavg", one_long_round), vector("fedavg", two_rounds)) > 1e-2


def test_weight_decay_never_enters_the_ascent_direction() -> None:
    w, centre, wd, lr, rho = np.array([2.0, -1.0]), np.array([2.0, 3.0]), 0.5, 0.1, 0.3
    run = train_point(ff.make("fedsam", rho=rho), Point(w), [bowl(centre)], lr=lr, weight_decay=wd)
    eps = rho * unit(w - centre)
    assert_close(run.vector, w - lr * (w + eps - centre + wd * w), rel=1e-14)


@each_opt
def test_the_learning_rate_decays_once_per_round(opt: str) -> None:
    g = np.array([1.0, -2.0])
    method = ff.make("fedavg", client_opt=opt_named(opt))
    local = {"lr": 0.5, "lr_decay": 0.8, "local_epochs": 2}
    run = train_point(method, Point(np.ones(2)), [slope(g)], rounds=3, loss=linear, **local)
    assert_close(run.vector, 1.0 - 2 * 0.5 * (1 + 0.8 + 0.64) * g, rel=1e-14)
