"""Identities and limits of FedAvg, FedProx and FedAvgM."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import Point, assert_close, linear, network_setup, train_point
from methods.identities.shared import each_opt, few, opt_named, plain_setup, slope, vector
from methods.naive import norm


def test_fedavg_with_one_client_is_plain_gradient_descent() -> None:
    setup = network_setup(sizes=(6,), schedule=((0,),) * 4)
    w = setup.w0
    for t in range(4):
        for _ in range(3):
            w = w - setup.lr * setup.lr_decay**t * (setup.g(0, w) + setup.weight_decay * w)
    assert_close(vector("fedavg", setup), w)


def test_fedavg_with_one_step_and_everyone_is_centralised_gradient_descent() -> None:
    everyone = tuple(range(6))
    setup = plain_setup(schedule=(everyone,) * 4, local_epochs=1)
    w = setup.w0
    for _ in range(4):
        w = w - setup.lr * naive.mean([setup.g(k, w) for k in everyone])
    assert_close(vector("fedavg", setup), w)


@given(mu=st.floats(0, 4))
@few
def test_fedprox_with_one_local_step_is_fedavg(mu: float) -> None:
    setup = network_setup(local_epochs=1)
    assert_close(vector("fedprox", setup, mu=mu), vector("fedavg", setup), rel=1e-13)


@each_opt
def test_fedprox_with_mu_zero_is_fedavg(opt: str) -> None:
    setup = network_setup()
    expected = vector("fedavg", setup, client_opt=opt_named(opt))
    assert_close(vector("fedprox", setup, mu=0.0, client_opt=opt_named(opt)), expected, rel=1e-13)


def test_fedprox_with_large_mu_stays_near_the_received_model() -> None:
    lr, mu, gradient = 1e-4, 9e3, np.array([1.0, -2.0])
    run = train_point(
        ff.make("fedprox", mu=mu), Point(np.zeros(2)), [slope(gradient)], loss=linear, lr=lr, local_epochs=40
    )
    assert_close(run.vector, -gradient / mu, rel=1e-10)


@each_opt
def test_fedavgm_without_momentum_is_fedavg(opt: str) -> None:
    setup, chosen = network_setup(), opt_named(opt)
    for server_lr in (1.0, 0.6):
        momentum = vector("fedavgm", setup, server_momentum=0.0, server_lr=server_lr, client_opt=chosen)
        assert_close(momentum, vector("fedavg", setup, server_lr=server_lr, client_opt=chosen), rel=1e-13)


def test_fedavgm_with_a_constant_update_tends_to_the_geometric_sum() -> None:
    g, beta = np.array([1.0, -2.0]), 0.6
    method = ff.make("fedavgm", server_momentum=beta)
    run = train_point(method, Point(np.zeros(2)), [slope(g)], rounds=80, loss=linear)
    assert_close(run.server_state["momentum"], -0.1 * g / (1 - beta), rel=1e-12)
    assert run.history[-1]["update_norm"] == pytest.approx(norm(0.1 * g / (1 - beta)), rel=1e-9)
