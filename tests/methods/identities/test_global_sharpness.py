"""Identities and limits of FedSMOO, FedGMT and FedGF."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, Point, array, assert_close, held, linear, network_setup, train_network, train_point
from methods.identities.shared import distance, few, plain_setup, radius, slope, vector
from methods.naive import norm, unit

# --- FedSMOO --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@given(beta=st.floats(1, 50))
@few
def test_fedsmoo_with_radius_zero_is_feddyn(variant: str, beta: float) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedsmoo", rho=0.0, beta=beta, variant=variant), setup)
    assert_close(run.vector, vector("feddyn", setup, alpha=1 / beta), rel=1e-12)
    assert not array(run.server_state["s"]).any()


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_the_first_step_of_fedsmoo_is_feddyn_with_sam(variant: str) -> None:
    setup = network_setup(local_epochs=1, schedule=COHORTS[:1])
    smoo = vector("fedsmoo", setup, rho=0.3, beta=4.0, variant=variant)
    assert_close(smoo, vector("feddyn", setup, alpha=0.25, client_opt=ff.SAM(rho=0.3)), rel=1e-13)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_the_server_perturbation_of_fedsmoo_has_length_rho(variant: str) -> None:
    run = train_network(ff.make("fedsmoo", rho=0.3, variant=variant), network_setup())
    assert norm(array(run.server_state["s"])) == pytest.approx(0.3, rel=1e-12)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_the_server_dual_of_fedsmoo_is_the_mean_over_all_clients(variant: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedsmoo", rho=0.3, variant=variant), setup)
    h = [held(run.client_state(k), "h", setup.w0) for k in range(setup.N)]
    assert_close(run.server_state["H"], naive.mean(h), rel=1e-12)


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_fedsmoo_without_regulariser_and_radius_is_the_plain_mean(variant: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedsmoo", rho=0.0, variant=variant, regularise=False), setup)
    assert_close(run.vector, vector("fedavg", replace(setup, weighting="uniform")), rel=1e-12)
    assert not array(run.server_state["s"]).any()


@pytest.mark.parametrize("variant", ["A", "B", "C"])
def test_the_first_step_of_fedsmoo_without_regulariser_is_fedsam(variant: str) -> None:
    setup = network_setup(local_epochs=1, schedule=COHORTS[:1], weighting="uniform")
    smoo = vector("fedsmoo", setup, rho=0.3, variant=variant, regularise=False)
    assert_close(smoo, vector("fedsam", setup, rho=0.3), rel=1e-13)


def test_fedsmoo_without_regulariser_keeps_no_duals_of_the_model_and_does_not_know_beta() -> None:
    setup = network_setup()
    weak, strong = (
        train_network(ff.make("fedsmoo", rho=0.3, beta=beta, regularise=False), setup) for beta in (1e9, 2.0)
    )
    assert torch.equal(weak.vector, strong.vector)
    assert set(weak.client_state(0)) == {"mu"}
    assert set(weak.server_state) == {"s"}
    regularised = train_network(ff.make("fedsmoo", rho=0.3, beta=1e9), setup)  # the server's H remains
    assert distance(array(regularised.vector), array(weak.vector)) > 0.1


def test_the_fedsmoo_variants_differ_only_in_the_server_perturbation() -> None:
    setup = network_setup(schedule=COHORTS[:1])
    runs = {v: train_network(ff.make("fedsmoo", rho=0.3, variant=v), setup) for v in "ABC"}
    mu = {k: array(runs["A"].client_state(k)["mu"]) for k in COHORTS[0]}
    for run in runs.values():
        assert torch.equal(run.vector, runs["A"].vector)
    assert_close(runs["B"].server_state["s"], 0.3 * unit(naive.mean(list(mu.values()))), rel=1e-12)
    # after one round the clients that were not asked hold zero, so the mean over all has the same direction
    assert_close(runs["C"].server_state["s"], -array(runs["B"].server_state["s"]), rel=1e-12)
    assert distance(array(runs["A"].server_state["s"]), array(runs["B"].server_state["s"])) > 1e-3


# --- FedGMT --------------------------------------------------------------------------------------


def test_fedgmt_without_distillation_is_feddyn_without_the_proximal_term() -> None:
    setup = network_setup(weighting="uniform")
    expected = naive.feddyn(setup, alpha=0.25, prox=False)
    assert_close(vector("fedgmt", setup, gamma=0.0, beta=4.0), expected.vector)


def test_fedgmt_without_distillation_and_with_one_step_is_feddyn() -> None:
    setup = network_setup(weighting="uniform", local_epochs=1)
    assert_close(vector("fedgmt", setup, gamma=0.0, beta=4.0), vector("feddyn", setup, alpha=0.25), rel=1e-12)


def test_the_fedgmt_teacher_is_the_exponential_mean_of_the_global_models_and_nothing_else() -> None:
    setup, alpha = network_setup(), 0.7
    e = setup.w0
    for t in range(1, 7):
        run = train_network(ff.make("fedgmt", alpha=alpha), replace(setup, schedule=COHORTS[:t]))
        e = alpha * e + (1 - alpha) * array(run.vector)
        assert_close(run.server_state["teacher"], e, rel=1e-12)


def test_the_fedgmt_teacher_with_alpha_zero_is_the_global_model_and_with_one_the_first() -> None:
    setup = network_setup()
    run = train_network(ff.make("fedgmt", alpha=0.0), setup)
    assert_close(run.server_state["teacher"], run.vector, rel=1e-14)
    run = train_network(ff.make("fedgmt", alpha=1.0), setup)
    assert_close(run.server_state["teacher"], setup.w0, rel=1e-14)


@given(gamma=st.floats(0, 3), tau=st.floats(0.5, 5))
@few
def test_the_distillation_gradient_vanishes_where_the_teacher_is_the_model(gamma: float, tau: float) -> None:
    setup = network_setup(local_epochs=1)
    distilled = vector("fedgmt", setup, alpha=0.0, gamma=gamma, tau=tau)
    assert_close(distilled, vector("fedgmt", setup, gamma=0.0), rel=1e-12)


def test_fedgmt_evaluates_the_model_and_not_the_teacher() -> None:
    run = train_network(ff.make("fedgmt"), network_setup())
    assert torch.equal(run.eval_vector, run.vector)


def test_the_fedgmt_dual_is_the_unweighted_mean_over_all_clients() -> None:
    setup = network_setup(weighting="samples")
    run = train_network(ff.make("fedgmt"), setup)
    h = [held(run.client_state(k), "h", setup.w0) for k in range(setup.N)]
    assert_close(run.server_state["H"], naive.mean(h), rel=1e-12)


# --- FedGF ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{"c": 0.0}, {"threshold": 1e9}], ids=["c", "threshold"])
@given(rho=radius)
@few
def test_fedgf_with_c_zero_is_fedsam(params: dict[str, float], rho: float) -> None:
    setup = network_setup()
    assert_close(vector("fedgf", setup, rho=rho, **params), vector("fedsam", setup, rho=rho), rel=1e-13)


def test_fedgf_with_radius_zero_and_c_zero_is_fedavg() -> None:
    setup = network_setup()
    assert_close(vector("fedgf", setup, rho=0.0, c=0.0), vector("fedavg", setup), rel=1e-13)


@pytest.mark.parametrize("c", [None, 0.5, 1.0])
def test_the_first_round_of_fedgf_is_fedsam(c: float | None) -> None:
    setup = network_setup(schedule=COHORTS[:1])
    assert_close(vector("fedgf", setup, rho=0.3, c=c), vector("fedsam", setup, rho=0.3), rel=1e-13)


@given(rho_global=radius)
@few
def test_fedgf_with_c_one_takes_every_gradient_at_the_frozen_global_point(rho_global: float) -> None:
    setup = plain_setup(weighting="samples", schedule=COHORTS[:2])
    params = {"rho": 0.3, "rho_global": rho_global, "c": 1.0}
    w1 = vector("fedgf", replace(setup, schedule=COHORTS[:1]), **params)
    frozen = w1 + rho_global * unit(setup.w0 - w1)
    p = naive.weights(setup, COHORTS[1])
    step = sum(p[k] * setup.local_epochs * setup.g(k, frozen) for k in COHORTS[1])
    assert_close(vector("fedgf", setup, **params), w1 - setup.lr * step)


def test_the_global_radius_of_fedgf_is_the_local_one_unless_given() -> None:
    setup = network_setup()
    same = vector("fedgf", setup, rho=0.3, c=0.5)
    np.testing.assert_array_equal(same, vector("fedgf", setup, rho=0.3, rho_global=0.3, c=0.5))


@given(threshold=st.floats(0.05, 0.8), window=st.integers(1, 7), rounds=st.integers(1, 6))
@few
def test_c_of_fedgf_is_the_mean_of_the_flags_in_the_window(threshold: float, window: int, rounds: int) -> None:
    setup = network_setup(schedule=COHORTS[:rounds])
    params = {"rho": 0.3, "threshold": threshold, "window": window}
    run = train_network(ff.make("fedgf", **params), setup)
    c = float(run.server_state["c"])
    assert c == pytest.approx(naive.fedgf(setup, **params).server["c"], abs=1e-12)
    collected = min(window, rounds)
    assert c * collected == pytest.approx(round(c * collected), abs=1e-12)


@pytest.mark.parametrize(("threshold", "c"), [(1.9, 1.0), (2.1, 0.0)])
def test_the_divergence_of_fedgf_is_the_unweighted_mean_of_the_update_norms(threshold: float, c: float) -> None:
    one, three = np.array([10.0, 0.0]), np.array([-30.0, 0.0])  # updates of length 1 and 3, pulling apart
    clients = [slope(one, n=9), slope(three, n=1)]
    method = ff.make("fedgf", threshold=threshold)
    run = train_point(method, Point(np.zeros(2)), clients, loss=linear, weighting="samples")
    assert float(run.server_state["c"]) == c


def test_c_of_fedgf_is_one_from_the_second_round_when_the_threshold_is_zero() -> None:
    setup = network_setup()
    adaptive = train_network(ff.make("fedgf", rho=0.3, threshold=0.0), setup)
    assert float(adaptive.server_state["c"]) == 1.0
    assert_close(adaptive.vector, vector("fedgf", setup, rho=0.3, c=1.0), rel=1e-13)


@given(window=st.integers(1, 8), rounds=st.integers(1, 6))
@few
def test_flags_may_be_divided_by_the_whole_window_from_the_start(window: int, rounds: int) -> None:
    setup = network_setup(schedule=COHORTS[:rounds])
    params = {"rho": 0.3, "threshold": 0.0, "window": window}
    run = train_network(ff.make("fedgf", **params, share_of="window"), setup)
    assert float(run.server_state["c"]) == pytest.approx(min(rounds, window) / window, rel=1e-12)


def test_the_two_shares_of_fedgf_are_the_same_once_the_window_is_full() -> None:
    setup = network_setup()
    params = {"rho": 0.3, "threshold": 0.35}
    seen, window = (vector("fedgf", setup, **params, window=1, share_of=s) for s in ("seen", "window"))
    np.testing.assert_array_equal(seen, window)
    seen, window = (vector("fedgf", setup, **params, window=30, share_of=s) for s in ("seen", "window"))
    np.testing.assert_array_equal(seen, vector("fedgf", setup, **params))
    assert distance(seen, window) > 1e-4
