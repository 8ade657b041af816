"""Identities and limits of FedGloSS and NaiveFedGloSS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import (
    COHORTS,
    Point,
    array,
    assert_close,
    client_opt,
    held,
    network_setup,
    train_network,
    train_point,
)
from methods.identities.shared import bowl, coordinates, distance, each_opt, few, opt_named, plain_setup, radius, vector
from methods.naive import Vector, norm, unit
from methods.table import CLIENT_OPTS

PAIRS = ((0, 3), (1, 2), (3, 4), (0, 2), (4, 1), (2, 3))  # two clients in every round


# --- FedGloSS -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@each_opt
def test_without_admm_and_server_radius_gloss_is_fedavg(method: str, opt: str) -> None:
    setup, chosen = network_setup(), opt_named(opt)
    gloss = vector(method, setup, admm=False, rho_server=0.0, client_opt=chosen)
    assert_close(gloss, vector("fedavg", setup, client_opt=chosen), rel=1e-12)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@each_opt
def test_without_server_radius_gloss_is_feddyn(method: str, opt: str) -> None:
    setup, chosen = network_setup(weighting="uniform"), opt_named(opt)
    gloss = vector(method, setup, beta=4.0, rho_server=0.0, client_opt=chosen)
    assert_close(gloss, vector("feddyn", setup, alpha=0.25, client_opt=chosen), rel=1e-11)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@given(rho_server=radius, beta=st.floats(1, 100))
@few
def test_the_server_dual_is_the_mean_of_all_client_duals(method: str, rho_server: float, beta: float) -> None:
    setup = network_setup()
    run = train_network(ff.make(method, rho_server=rho_server, beta=beta), setup)
    sigma_k = [held(run.client_state(k), "sigma", setup.w0) for k in range(setup.N)]
    assert_close(run.server_state["sigma"], naive.mean(sigma_k), rel=1e-11, floor=1e-14)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
def test_the_official_server_dual_is_m_times_smaller(method: str) -> None:
    setup = network_setup(schedule=PAIRS)
    run = train_network(ff.make(method, rho_server=0.4, beta=4.0, dual="official"), setup)
    sigma_k = [held(run.client_state(k), "sigma", setup.w0) for k in range(setup.N)]
    assert_close(2 * array(run.server_state["sigma"]), naive.mean(sigma_k), rel=1e-12)


@pytest.mark.parametrize("dual", ["printed", "official"])
@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
def test_only_the_default_server_dual_is_the_mean(method: str, dual: str) -> None:
    setup = network_setup(schedule=PAIRS)
    run = train_network(ff.make(method, rho_server=0.4, beta=4.0, dual=dual), setup)
    sigma_k = [held(run.client_state(k), "sigma", setup.w0) for k in range(setup.N)]
    assert distance(array(run.server_state["sigma"]), naive.mean(sigma_k)) > 1e-2


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
def test_without_server_radius_the_printed_dual_is_the_mean(method: str) -> None:
    setup = network_setup()
    printed, mean = (vector(method, setup, rho_server=0.0, beta=4.0, dual=dual) for dual in ("printed", "mean"))
    np.testing.assert_array_equal(printed, mean)


@given(rho_server=radius, beta=st.floats(1, 100))
@few
def test_the_printed_dual_differs_by_the_perturbation_of_every_client(rho_server: float, beta: float) -> None:
    """In the second round, whose first is not perturbed: m rho_s unit(D) / (beta N)."""
    setup = network_setup(schedule=((0, 3), (1, 2, 4)))
    params = {"rho_server": rho_server, "beta": beta}
    printed, mean = (train_network(ff.make("fedgloss", **params, dual=dual), setup) for dual in ("printed", "mean"))
    first = replace(setup, schedule=setup.schedule[:1])
    D = train_network(ff.make("fedgloss", **params), first).server_state["pseudo_gradient"]
    gap = array(printed.server_state["sigma"]) - array(mean.server_state["sigma"])
    assert_close(gap, -3 / (beta * setup.N) * rho_server * unit(array(D)), rel=1e-10)
    for k in range(setup.N):  # the clients' own duals know nothing of it
        np.testing.assert_array_equal(printed.client_state(k)["sigma"], mean.client_state(k)["sigma"])


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
def test_the_dual_that_was_called_paper_is_the_mean(method: str) -> None:
    old = ff.make(method, dual="paper")
    assert old == ff.make(method) == ff.make(method, dual="mean")
    assert old.dual == old.to_dict()["dual"] == "mean"
    assert type(old).registry.from_dict(old.to_dict() | {"dual": "paper"}) == old
    with pytest.raises(ff.ConfigError, match="dual must be one of 'mean', 'printed', 'official', not 'papers'"):
        ff.make(method, dual="papers")


def test_fedgloss_with_growing_beta_tends_to_something_that_is_not_fedsam() -> None:
    setup, sam = network_setup(), ff.SAM(rho=0.3)
    runs = {
        beta: train_network(ff.make("fedgloss", rho_server=0.0, beta=beta, client_opt=sam), setup)
        for beta in (1e4, 1e6, 1e8)
    }
    correction = {beta: beta * array(run.server_state["sigma"]) for beta, run in runs.items()}
    assert distance(correction[1e8], correction[1e6]) < 0.02 * distance(correction[1e6], correction[1e4])
    assert norm(correction[1e8]) > 0.1
    averaged = vector("fedsam", setup, rho=0.3)
    assert distance(array(runs[1e8].vector), averaged) > 0.1
    assert_close(runs[1e8].vector, runs[1e6].vector, rel=1e-5)


@given(rho_server=radius)
@few
def test_the_first_round_of_fedgloss_is_not_perturbed(rho_server: float) -> None:
    setup = network_setup(schedule=COHORTS[:1])
    a = vector("fedgloss", setup, rho_server=rho_server)
    np.testing.assert_array_equal(a, vector("fedgloss", setup, rho_server=0.0))


@given(rho_server=radius, start=coordinates)
@few
def test_later_rounds_of_fedgloss_start_rho_away_along_the_last_pseudo_gradient(
    rho_server: float, start: Vector
) -> None:
    lr, centre, method = 0.1, np.zeros(4), ff.make("fedgloss", admm=False, rho_server=rho_server)
    w1, w2 = (array(train_point(method, Point(start), [bowl(centre)], rounds=t, lr=lr).vector) for t in (1, 2))
    w_tilde = (w1 - w2) / lr  # on 1/2 |w|^2 the update of one step is -lr w~
    assert_close(w_tilde - w1, rho_server * unit(start - w1), rel=1e-8, floor=1e-12)


def test_without_admm_the_new_model_is_not_the_mean_of_the_client_models() -> None:
    lr, rho, start = 0.1, 0.5, np.array([2.0, 0.0])
    method = ff.make("fedgloss", admm=False, rho_server=rho)
    run = train_point(method, Point(start), [bowl(np.zeros(2))], rounds=2, lr=lr)
    w1 = start * (1 - lr)
    w_tilde = w1 + np.array([rho, 0.0])
    assert_close(run.vector, w1 - lr * w_tilde, rel=1e-13)
    assert distance(array(run.vector), w_tilde * (1 - lr)) == pytest.approx(rho)


def test_a_server_that_does_not_move_does_not_perturb() -> None:
    w = np.array([1.0, 2.0])
    for method in ("fedgloss", "naivefedgloss", "fedgf"):
        run = train_point(ff.make(method), Point(w), [bowl(w)], rounds=3)
        np.testing.assert_array_equal(array(run.vector), w)


def test_the_dual_terms_are_taken_at_the_unperturbed_point() -> None:
    setup, o = plain_setup(local_epochs=2, schedule=((0,), (0,))), CLIENT_OPTS["sam"].opt
    method = ff.make("fedgloss", rho_server=0.0, beta=2.0, client_opt=client_opt(o))
    expected = naive.fedgloss(setup, o, rho_server=0.0, beta=2.0)
    assert_close(train_network(method, setup).vector, expected.vector)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@pytest.mark.parametrize("opt", ["sam", "asam"])
def test_the_warm_up_raises_the_client_radius_linearly_and_then_keeps_it(method: str, opt: str) -> None:
    o = CLIENT_OPTS[opt].opt
    params = {"admm": False, "rho_server": 0.0, "rho_start": 0.05, "rho_warmup": 4}
    for t in (0, 2, 4, 5):
        setup = network_setup(schedule=COHORTS[: t + 1])
        before = naive.fedgloss(setup, o, **params).models[t - 1] if t > 0 else setup.w0
        rho = 0.05 + (o.rho - 0.05) * min(t, 4) / 4
        last = replace(setup, w0=before, schedule=COHORTS[t : t + 1], lr=setup.lr * setup.lr_decay**t)
        expected = naive.fedavg(last, replace(o, rho=rho)).vector
        assert_close(vector(method, setup, client_opt=client_opt(o), **params), expected)


def test_the_warm_up_leaves_sgd_clients_alone() -> None:
    setup = network_setup()
    warmed = vector("fedgloss", setup, rho_warmup=3)
    np.testing.assert_array_equal(warmed, vector("fedgloss", setup))


# --- NaiveFedGloSS --------------------------------------------------------------------------------


@pytest.mark.parametrize("dual", ["paper", "mean", "printed", "official"])
@each_opt
def test_without_server_radius_the_two_gloss_methods_are_the_same(dual: str, opt: str) -> None:
    setup = network_setup()
    params = {"rho_server": 0.0, "beta": 4.0, "dual": dual, "client_opt": opt_named(opt)}
    assert_close(vector("naivefedgloss", setup, **params), vector("fedgloss", setup, **params), rel=1e-12)


def test_naivefedgloss_counts_both_exchanges() -> None:
    setup = network_setup()
    one = train_network(ff.make("fedgloss"), setup).history
    two = train_network(ff.make("naivefedgloss"), setup).history
    for a, b in zip(one, two, strict=True):
        assert b["backprops"] == 2 * a["backprops"]
        assert b["bytes_down"] >= 1.5 * a["bytes_down"]
        assert b["bytes_up"] >= 1.5 * a["bytes_up"]


@given(rho=radius)
@few
def test_naivefedgloss_with_one_client_and_one_step_is_centralised_sam(rho: float) -> None:
    setup = plain_setup(schedule=((3,),) * 3, local_epochs=1)
    gloss = vector("naivefedgloss", setup, admm=False, rho_server=rho)
    assert_close(gloss, vector("fedsam", setup, rho=rho), rel=1e-10)


def test_naivefedgloss_changes_the_duals_after_the_second_pass_only() -> None:
    setup = network_setup(schedule=((0, 3),))
    run = train_network(ff.make("naivefedgloss", rho_server=0.4, beta=4.0), setup)
    w_tilde = setup.w0 - 0.4 * unit(vector("fedprox", setup, mu=0.25) - setup.w0)
    for k in (0, 3):
        alone = replace(setup, w0=w_tilde, schedule=((k,),))
        second_pass = vector("fedprox", alone, mu=0.25) - w_tilde
        assert_close(run.client_state(k)["sigma"], -second_pass / 4.0)
