"""Identities and limits of FedAdam, FedYogi, FedAdaGrad and FedNova."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import Point, array, assert_close, linear, network_setup, train_network, train_point
from methods.identities.shared import (
    OPTIMISERS,
    any_opt,
    bowl,
    continued,
    distance,
    few,
    fewer,
    fraction,
    one_round,
    plain_setup,
    slope,
    train_id,
    vector,
)
from methods.naive import Setup, Vector

ADAPTIVE = ("fedadam", "fedyogi", "fedadagrad")
HUGE = 1e9
each_adaptive = pytest.mark.parametrize("method", ADAPTIVE)


# --- FedAdam, FedYogi, FedAdaGrad -------------------------------------------------------------------------


@given(beta1=st.floats(0, 0.95), beta2=fraction, server_lr=st.floats(0.01, 1))
@few
def test_the_first_round_of_yogi_is_that_of_adam_if_v_starts_at_zero(
    beta1: float, beta2: float, server_lr: float
) -> None:
    params = {"beta1": beta1, "beta2": beta2, "server_lr": server_lr, "v0": 0.0}
    adam, yogi = (train_id(method, one_round(), **params) for method in ("fedadam", "fedyogi"))
    assert_close(yogi.server_state["v"], adam.server_state["v"], rel=1e-15)
    assert_close(yogi.vector, adam.vector, rel=1e-15)


@given(tau=st.floats(1e-3, 1), beta2=fraction)
@few
def test_with_the_published_start_they_differ_by_at_most_tau_squared(tau: float, beta2: float) -> None:
    adam, yogi = (train_id(m, one_round(), tau=tau, beta2=beta2) for m in ("fedadam", "fedyogi"))
    gap = array(yogi.server_state["v"]) - array(adam.server_state["v"])
    bound = tau**2 * (1 - beta2)
    assert np.abs(gap).max() <= bound * (1 + 1e-9)
    update = vector("fedavg", one_round()) - one_round().w0
    large = update**2 > tau**2 * (1 + 1e-9)
    np.testing.assert_allclose(gap[large], bound, rtol=1e-9)
    np.testing.assert_allclose(gap[~large], bound - 2 * (1 - beta2) * update[~large] ** 2, rtol=1e-6, atol=1e-9 * bound)


@each_adaptive
def test_v_starts_at_tau_squared_unless_reported(method: str) -> None:
    setup, tau = network_setup(), 0.2
    default = vector(method, setup, tau=tau)
    assert_close(vector(method, setup, tau=tau, v0=tau**2), default, rel=1e-14)
    assert distance(vector(method, setup, tau=tau, v0=0.0), default) > 1e-4


@any_opt
@each_adaptive
def test_a_huge_tau_with_as_huge_a_rate_is_fedavg_if_v_starts_at_zero(method: str, opt: str) -> None:
    setup, chosen = network_setup(), OPTIMISERS[opt]()
    adaptive = vector(method, setup, beta1=0.0, tau=HUGE, server_lr=HUGE, v0=0.0, client_opt=chosen)
    assert_close(adaptive, vector("fedavg", setup, client_opt=chosen), rel=1e-8)


@each_adaptive
def test_a_huge_tau_divides_the_first_update_by_one_plus_the_root_of_v_over_tau_squared(method: str) -> None:
    beta2 = 0.64
    extra = {} if method == "fedadagrad" else {"beta2": beta2}
    moved = vector(method, one_round(), beta1=0.0, tau=HUGE, server_lr=HUGE, **extra) - one_round().w0
    update = vector("fedavg", one_round()) - one_round().w0
    v_over_tau_squared = beta2 if method == "fedadam" else 1.0
    assert_close(moved, update / (1 + np.sqrt(v_over_tau_squared)), rel=1e-8)


@each_adaptive
def test_a_vanishing_tau_moves_every_coordinate_by_the_server_rate(method: str) -> None:
    setup = one_round()
    extra = {} if method == "fedadagrad" else {"beta2": 0.0}
    moved = vector(method, setup, beta1=0.0, tau=1e-14, server_lr=0.3, v0=0.0, **extra) - setup.w0
    update = vector("fedavg", setup) - setup.w0
    assert_close(moved, 0.3 * np.sign(update), rel=1e-8)


@given(beta1=fraction, beta2=fraction, rounds=st.integers(1, 5))
@few
def test_a_constant_update_gives_moments_without_bias_correction(beta1: float, beta2: float, rounds: int) -> None:
    g, tau, lr = np.array([3.0, -2.0]), 0.3, 0.1
    update, params = -lr * g, {"beta1": beta1, "tau": tau, "server_lr": 0.05}
    v = {
        "fedadam": beta2**rounds * tau**2 + (1 - beta2**rounds) * update**2,
        "fedadagrad": tau**2 + rounds * update**2,
    }
    for method, expected in v.items():
        extra = {} if method == "fedadagrad" else {"beta2": beta2}
        algorithm = ff.make(method, **params, **extra)
        run = train_point(algorithm, Point(np.zeros(2)), [slope(g)], rounds=rounds, loss=linear, lr=lr)
        assert_close(run.server_state["m"], (1 - beta1**rounds) * update, rel=1e-12)
        assert_close(run.server_state["v"], expected, rel=1e-12)
        last = 0.05 * array(run.server_state["m"]) / (np.sqrt(expected) + tau)
        assert run.history[-1]["update_norm"] == pytest.approx(float(np.linalg.norm(last)), rel=1e-9)


@given(beta2=fraction)
@fewer
def test_yogi_adds_or_subtracts_the_same_amount_of_the_squared_update(beta2: float) -> None:
    g, lr, v0 = np.array([3.0, -2.0]), 0.1, 0.06  # squared updates 0.09 and 0.04
    method = ff.make("fedyogi", beta2=beta2, v0=v0)
    run = train_point(method, Point(np.zeros(2)), [slope(g)], loss=linear, lr=lr)
    assert_close(run.server_state["v"], v0 + (1 - beta2) * np.array([0.09, -0.04]), rel=1e-12)


def adam_of_torch(setup: Setup, server_lr: float, beta1: float, beta2: float, tau: float) -> Vector:
    """FedAvg's updates, handed to PyTorch's Adam as gradients of the server."""
    w = torch.tensor(setup.w0, requires_grad=True)
    adam = torch.optim.Adam([w], lr=server_lr, betas=(beta1, beta2), eps=tau)
    for t in range(setup.rounds):
        now = array(w)
        w.grad = torch.tensor(now - vector("fedavg", continued(setup, now, t)))
        adam.step()
    return array(w)


@given(beta1=st.floats(0, 0.95), beta2=fraction, tau=st.sampled_from([1e-3, 0.1]))
@fewer
def test_bias_correction_makes_it_the_adam_of_torch(beta1: float, beta2: float, tau: float) -> None:
    setup, params = network_setup(), {"server_lr": 0.05, "beta1": beta1, "beta2": beta2, "tau": tau}
    ours = vector("fedadam", setup, **params, v0=0.0, bias_correction=True)
    assert_close(ours, adam_of_torch(setup, **params), rel=1e-12)
    assert distance(ours, vector("fedadam", setup, **params, v0=0.0)) > 1e-3


def test_the_corrections_fade() -> None:
    setup = network_setup(schedule=((0, 3),) * 40)
    params = {"beta1": 0.3, "beta2": 0.4, "tau": 0.1, "v0": 0.0}
    runs = [train_id("fedadam", setup, **params, bias_correction=on) for on in (True, False)]
    first, last = (
        abs(runs[0].history[t]["update_norm"] / runs[1].history[t]["update_norm"] - 1) for t in (0, setup.rounds - 1)
    )
    assert first > 0.05 > last


def test_after_resuming_the_corrections_count_all_rounds(tmp_path: Path) -> None:
    setup = network_setup()
    method = ff.make("fedadam", server_lr=0.05, v0=0.0, bias_correction=True)
    whole = train_network(method, setup)
    sampling = {"sampling": ff.Replay([list(cohort) for cohort in setup.schedule])}
    begun = train_network(method, setup, rounds=2, out=tmp_path / "run", **sampling)
    resumed = ff.resume(tmp_path / "run", rounds=setup.rounds, task=begun._federation.task)
    assert torch.equal(resumed.vector, whole.vector)


# --- FedNova ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("momentum", [0.0, 0.7])
@any_opt
def test_fednova_with_equal_step_counts_is_fedavg(opt: str, momentum: float, weighting: str) -> None:
    setup = network_setup(momentum=momentum, weighting=weighting)
    chosen = OPTIMISERS[opt]()
    assert_close(vector("fednova", setup, client_opt=chosen), vector("fedavg", setup, client_opt=chosen), rel=1e-12)


def unequal(method: str, cohort: Sequence[int], sizes: Sequence[int], **local: Any) -> Vector:
    """The update of a round in which client k takes `sizes[k]` steps on its quadratic."""
    centres = (np.array([1.0, -2.0]), np.array([3.0, 0.5]))
    clients = [bowl(c, a, n) for c, a, n in zip(centres, (1.0, 2.0), sizes, strict=True)]
    run = train_point(ff.make(method), Point(np.zeros(2)), clients, schedule=[cohort], batch_size=1, **local)
    return array(run.vector)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@given(k=st.integers(2, 7), weight_decay=st.sampled_from([0.0, 0.3]))
@fewer
def test_fednova_with_one_step_against_k(weighting: str, k: int, weight_decay: float) -> None:
    local = {"weighting": weighting, "weight_decay": weight_decay}
    both = unequal("fednova", (0, 1), (1, k), **local)
    first, second = (unequal("fedavg", (i,), (1, k), **local) for i in (0, 1))
    p = np.array([1, k]) / (1 + k) if weighting == "samples" else np.array([0.5, 0.5])
    assert_close(both, (p[0] + k * p[1]) * (p[0] * first + p[1] * second / k), rel=1e-12)
    assert distance(both, unequal("fedavg", (0, 1), (1, k), **local)) > 1e-3


def mass(steps: int, momentum: float) -> float:
    """The accumulated step coefficients, closed form."""
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


@given(steps=st.integers(1, 40), momentum=st.floats(0, 0.95))
@few
def test_the_closed_form_of_the_mass_is_the_recursion(steps: int, momentum: float) -> None:
    a = c = 0.0
    for _ in range(steps):
        c = momentum * c + 1
        a += c
    assert mass(steps, momentum) == pytest.approx(a, rel=1e-10)


@given(k=st.tuples(st.integers(1, 6), st.integers(1, 6)), momentum=st.floats(0, 0.95))
@few
def test_fednova_weighs_constant_gradients_by_their_client_alone(k: tuple[int, int], momentum: float) -> None:
    """Each update is the mass times the gradient, so dividing by the mass leaves the weights of the clients."""
    lr, p = 0.1, np.array(k) / sum(k)
    gradients = (np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    clients = [slope(g, n) for g, n in zip(gradients, k, strict=True)]
    local = {"loss": linear, "lr": lr, "batch_size": 1, "momentum": momentum, "weighting": "samples"}
    run = train_point(ff.make("fednova"), Point(np.zeros(2)), clients, **local)
    effective = p[0] * mass(k[0], momentum) + p[1] * mass(k[1], momentum)
    assert_close(run.vector, -lr * effective * (p[0] * gradients[0] + p[1] * gradients[1]), rel=1e-11)


@given(k=st.integers(2, 6), momentum=st.floats(0.1, 0.9))
@fewer
def test_fednova_divides_each_update_by_its_own_mass(k: int, momentum: float) -> None:
    both = unequal("fednova", (0, 1), (1, k), momentum=momentum)
    first, second = (unequal("fedavg", (i,), (1, k), momentum=momentum) for i in (0, 1))
    a = mass(1, momentum), mass(k, momentum)
    assert_close(both, (a[0] + a[1]) / 2 * (first / a[0] + second / a[1]) / 2, rel=1e-12)


def test_fednova_keeps_nothing() -> None:
    run = train_id("fednova", plain_setup())
    assert not run.server_state
    assert not run.client_state(0)
