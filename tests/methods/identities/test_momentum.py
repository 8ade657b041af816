"""Identities and limits of the methods with a momentum that clients follow: FedACG, FedCM, MoFedSAM, Mime, MimeLite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, Point, array, assert_close, linear, network_setup, repeated_sample_setup, train_point
from methods.identities.shared import (
    EVERYONE,
    OPTIMISERS,
    any_opt,
    continued,
    distance,
    few,
    fewer,
    fraction,
    one_round,
    plain_setup,
    radius,
    slope,
    train_id,
    vector,
)
from methods.naive import Setup, Vector, unit


def centralised(setup: Setup, w: Vector) -> Vector:
    """The gradient of the mean objective of everyone, as the set-up weighs them."""
    p = naive.weights(setup, EVERYONE)
    return sum(p[k] * setup.g(k, w) for k in EVERYONE)


def one_step_with_everyone(**changes: object) -> Setup:
    return plain_setup(schedule=(EVERYONE,) * 4, local_epochs=1, **changes)


# --- FedACG -----------------------------------------------------------------------------------------------


@given(lam=st.floats(0, 0.95), beta=st.floats(0, 2))
@few
def test_fedacg_with_one_step_and_everyone_is_nesterov(lam: float, beta: float) -> None:
    setup = one_step_with_everyone()
    w, m = setup.w0, setup.zeros()
    for _ in range(4):
        m = lam * m - setup.lr * centralised(setup, w + lam * m)
        w = w + m
    run = train_id("fedacg", setup, lam=lam, beta=beta)
    assert_close(run.vector, w)
    assert_close(run.server_state["momentum"], m, rel=1e-9)


@any_opt
def test_fedacg_without_momentum_is_fedprox_and_without_both_is_fedavg(opt: str) -> None:
    setup, chosen = network_setup(weighting="uniform"), OPTIMISERS[opt]()
    prox = vector("fedacg", setup, lam=0.0, beta=0.6, client_opt=chosen)
    assert_close(prox, vector("fedprox", setup, mu=0.6, client_opt=chosen), rel=1e-12)
    plain = vector("fedacg", setup, lam=0.0, beta=0.0, client_opt=chosen)
    assert_close(plain, vector("fedavg", setup, client_opt=chosen), rel=1e-12)


@given(lam=fraction, beta=st.floats(0, 1))
@fewer
def test_the_first_round_of_fedacg_is_fedprox_and_the_second_starts_ahead(lam: float, beta: float) -> None:
    setup = network_setup(weighting="uniform", schedule=COHORTS[:2])
    w1 = vector("fedacg", replace(setup, schedule=COHORTS[:1]), lam=lam, beta=beta)
    assert_close(w1, vector("fedprox", replace(setup, schedule=COHORTS[:1]), mu=beta), rel=1e-12)
    ahead = w1 + lam * (w1 - setup.w0)
    run = train_id("fedacg", setup, lam=lam, beta=beta)
    # the next model is the mean of the models that started at `ahead`
    assert_close(run.vector, vector("fedprox", continued(setup, ahead, 1), mu=beta), rel=1e-11)
    assert torch.equal(run.eval_vector, run.vector)


# --- FedCM ------------------------------------------------------------------------------------------------


@any_opt
def test_fedcm_with_alpha_one_is_fedavg(opt: str) -> None:
    setup, chosen = network_setup(weighting="uniform"), OPTIMISERS[opt]()
    cm = vector("fedcm", setup, alpha=1.0, client_opt=chosen)
    assert_close(cm, vector("fedavg", setup, client_opt=chosen), rel=1e-12)


@any_opt
@given(alpha=fraction)
@fewer
def test_the_first_round_of_fedcm_is_fedavg_with_alpha_times_the_rate(opt: str, alpha: float) -> None:
    setup, chosen = one_round(), OPTIMISERS[opt]()
    slow = vector("fedavg", replace(setup, lr=alpha * setup.lr), client_opt=chosen)
    run = train_id("fedcm", setup, alpha=alpha, client_opt=chosen)
    assert_close(run.vector, slow, rel=1e-12)
    scale = setup.local_epochs * setup.lr
    assert_close(run.server_state["momentum"], (setup.w0 - slow) / scale, rel=1e-10)


@pytest.mark.parametrize(("method", "weight"), [("fedcm", "alpha"), ("mofedsam", "beta")])
@given(alpha=fraction, rounds=st.integers(1, 6))
@few
def test_a_constant_gradient_gives_a_geometric_mean(method: str, weight: str, alpha: float, rounds: int) -> None:
    gradients = (np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    algorithm = ff.make(method, **{weight: alpha})
    clients = [slope(g) for g in gradients]
    local = {"local_epochs": 3, "lr_decay": 0.8, "loss": linear}
    run = train_point(algorithm, Point(np.zeros(2)), clients, rounds=rounds, **local)
    mean = (gradients[0] + gradients[1]) / 2
    assert_close(run.server_state["momentum"], (1 - (1 - alpha) ** rounds) * mean, rel=1e-11)
    moved = -0.3 * sum(0.8**t * (1 - (1 - alpha) ** (t + 1)) for t in range(rounds)) * mean
    assert_close(run.vector, moved, rel=1e-11)


@given(alpha=fraction)
@fewer
def test_fedcm_with_one_step_and_everyone_is_sgd_with_exponential_momentum(alpha: float) -> None:
    setup = one_step_with_everyone()
    w, m = setup.w0, setup.zeros()
    for _ in range(4):
        m = alpha * centralised(setup, w) + (1 - alpha) * m
        w = w - setup.lr * m
    run = train_id("fedcm", setup, alpha=alpha)
    assert_close(run.vector, w)
    assert_close(run.server_state["momentum"], m, rel=1e-9)


def test_the_momentum_of_fedcm_divides_each_update_by_its_own_steps() -> None:
    gradients = (np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    clients = [slope(gradients[0], 1), slope(gradients[1], 4)]
    run = train_point(ff.make("fedcm", alpha=0.4), Point(np.zeros(2)), clients, loss=linear, batch_size=1)
    assert_close(run.server_state["momentum"], 0.4 * (gradients[0] + gradients[1]) / 2, rel=1e-12)
    assert_close(run.vector, -0.1 * 0.4 * (gradients[0] + 4 * gradients[1]) / 2, rel=1e-12)


# --- MoFedSAM ---------------------------------------------------------------------------------------------


@given(beta=fraction)
@fewer
def test_mofedsam_with_radius_zero_is_fedcm(beta: float) -> None:
    setup = network_setup()
    assert_close(vector("mofedsam", setup, rho=0.0, beta=beta), vector("fedcm", setup, alpha=beta), rel=1e-13)


@given(rho=radius)
@fewer
def test_mofedsam_with_beta_one_is_fedsam(rho: float) -> None:
    setup = network_setup(weighting="uniform")
    assert_close(vector("mofedsam", setup, rho=rho, beta=1.0), vector("fedsam", setup, rho=rho), rel=1e-12)


@given(rho=radius, beta=fraction)
@fewer
def test_mofedsam_is_fedcm_with_sam(rho: float, beta: float) -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=1)
    cm = vector("fedcm", setup, alpha=beta, client_opt=ff.SAM(rho=rho))
    assert_close(vector("mofedsam", setup, rho=rho, beta=beta), cm, rel=1e-12)


# --- MimeLite and Mime ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@any_opt
def test_mimelite_without_momentum_is_fedavg(opt: str, weighting: str) -> None:
    setup, chosen = network_setup(weighting=weighting), OPTIMISERS[opt]()
    lite = vector("mimelite", setup, beta=0.0, client_opt=chosen)
    assert_close(lite, vector("fedavg", setup, client_opt=chosen), rel=1e-12)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
@pytest.mark.parametrize("method", ["mime", "mimelite"])
@given(beta=st.floats(0, 0.95))
@fewer
def test_mime_with_one_step_and_everyone_is_centralised_sgd_with_momentum(
    method: str, weighting: str, beta: float
) -> None:
    setup = one_step_with_everyone(weighting=weighting)
    w, m = setup.w0, setup.zeros()
    for _ in range(4):
        m = (1 - beta) * centralised(setup, w) + beta * m
        w = w - setup.lr * m
    run = train_id(method, setup, beta=beta)
    assert_close(run.vector, w)
    assert_close(run.server_state["momentum"], m, rel=1e-9)


@pytest.mark.parametrize("method", ["mime", "mimelite"])
def test_the_momentum_of_mime_is_made_of_gradients_at_the_received_models(method: str) -> None:
    setup, beta = network_setup(), 0.6
    w, m = setup.w0, setup.zeros()
    for t, cohort in enumerate(COHORTS):
        p = naive.weights(setup, cohort)
        m = (1 - beta) * sum(p[k] * setup.g(k, w) for k in cohort) + beta * m
        run = train_id(method, replace(setup, schedule=COHORTS[: t + 1]), beta=beta)
        assert_close(run.server_state["momentum"], m, rel=1e-9)
        w = array(run.vector)


@pytest.mark.parametrize("method", ["mime", "mimelite"])
def test_the_full_batch_gradient_of_mime_is_over_all_examples_whatever_the_batches(method: str) -> None:
    setup = network_setup(schedule=((0, 3),), batch_size=2)
    p = naive.weights(setup, (0, 3))
    run = train_id(method, setup, beta=0.6)
    expected = 0.4 * sum(p[k] * setup.g(k, setup.w0) for k in (0, 3))
    assert_close(run.server_state["momentum"], expected, rel=1e-9)


def test_mime_of_one_client_with_full_batches_is_mimelite() -> None:
    setup = network_setup(sizes=(6,), schedule=((0,),) * 5)
    # g(w) - g(w^t) + c with c = g(w^t)
    assert_close(vector("mime", setup, beta=0.6), vector("mimelite", setup, beta=0.6), rel=1e-11)


def test_mime_and_mimelite_differ_between_different_clients() -> None:
    setup = plain_setup()
    assert distance(vector("mime", setup, beta=0.6), vector("mimelite", setup, beta=0.6)) > 1e-2


def test_mime_without_momentum_corrects_each_step_by_the_gradient_at_the_start() -> None:
    setup = plain_setup(schedule=((0, 3),), local_epochs=2)
    c = naive.mean([setup.g(k, setup.w0) for k in (0, 3)])
    moved = []
    for k in (0, 3):
        w1 = setup.w0 - setup.lr * c
        moved.append(w1 - setup.lr * (setup.g(k, w1) - setup.g(k, setup.w0) + c))
    assert_close(vector("mime", setup, beta=0.0), naive.mean(moved))


def test_mimelite_is_fedcm_for_one_local_step_only() -> None:
    single = plain_setup(local_epochs=1)
    assert_close(vector("mimelite", single, beta=0.6), vector("fedcm", single, alpha=0.4), rel=1e-11)
    several = replace(single, local_epochs=3)
    assert distance(vector("mimelite", several, beta=0.6), vector("fedcm", several, alpha=0.4)) > 1e-3


def test_mimelite_uploads_the_plain_gradient_whatever_the_client_optimiser() -> None:
    setup = one_round()
    plain, sam = (train_id("mimelite", setup, client_opt=opt) for opt in (ff.SGD(), ff.SAM(rho=0.5)))
    assert_close(sam.server_state["momentum"], plain.server_state["momentum"], rel=1e-14)
    g = {k: setup.g(k, setup.w0) for k in COHORTS[0]}
    perturbed = naive.mean([setup.g(k, setup.w0 + 0.5 * unit(g[k])) for k in COHORTS[0]])
    assert distance(array(sam.server_state["momentum"]), 0.1 * perturbed) > 1e-3
