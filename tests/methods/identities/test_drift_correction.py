"""Identities and limits of SCAFFOLD and FedDyn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, array, assert_close, held, network_setup, train_network
from methods.identities.shared import distance, each_opt, few, opt_named, plain_setup, vector

# --- SCAFFOLD -------------------------------------------------------------------------------------


@each_opt
@pytest.mark.parametrize("option", ["I", "II"])
def test_the_server_control_variate_is_the_mean_over_all_clients(option: str, opt: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("scaffold", option=option, client_opt=opt_named(opt)), setup)
    c_i = [held(run.client_state(k), "c", setup.w0) for k in range(setup.N)]
    assert_close(run.server_state["c"], naive.mean(c_i), rel=1e-12)


@each_opt
def test_the_first_round_of_scaffold_is_fedavg(opt: str) -> None:
    setup, chosen = network_setup(weighting="uniform", schedule=COHORTS[:1]), opt_named(opt)
    assert_close(vector("scaffold", setup, client_opt=chosen), vector("fedavg", setup, client_opt=chosen), rel=1e-13)


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_with_one_client_is_fedavg(option: str) -> None:
    setup = plain_setup(sizes=(6,), schedule=((0,),) * 5)
    # option II: c and c_0 are the same number; option I: both are the last full-batch gradient
    assert_close(vector("scaffold", setup, option=option), vector("fedavg", setup), rel=1e-12)


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_scaffold_with_one_step_and_everyone_is_gradient_descent(server_lr: float) -> None:
    everyone = tuple(range(6))
    history = plain_setup(local_epochs=1, schedule=(*COHORTS, everyone))
    before = vector("scaffold", replace(history, schedule=COHORTS), server_lr=server_lr)
    after = train_network(ff.make("scaffold", server_lr=server_lr), history)
    g = [history.g(k, before) for k in everyone]
    # c is the mean of all c_k, so the corrections cancel in the mean whatever came before
    assert_close(after.vector, before - server_lr * history.lr * naive.mean(g))


def test_the_control_variates_after_one_full_step_are_the_client_gradients() -> None:
    everyone = tuple(range(6))
    setup = plain_setup(local_epochs=1, schedule=(everyone,) * 3)
    before = vector("scaffold", replace(setup, schedule=(everyone,) * 2))
    after = train_network(ff.make("scaffold"), setup)
    for k in everyone:
        assert_close(after.client_state(k)["c"], setup.g(k, before), rel=1e-9)


def test_the_option_two_control_variate_is_the_mean_gradient_of_the_first_round() -> None:
    setup = plain_setup(schedule=((3,),), lr_decay=0.5)
    run = train_network(ff.make("scaffold"), setup)
    steps = (setup.w0 - array(run.vector)) / (setup.local_epochs * setup.lr)
    assert_close(run.client_state(3)["c"], steps, rel=1e-10)
    assert_close(run.server_state["c"], steps / setup.N, rel=1e-10)


def test_scaffold_warns_about_momentum_and_goes_on() -> None:
    setup = network_setup(momentum=0.5, schedule=COHORTS[:2])
    with pytest.warns(Warning, match="momentum"):
        run = train_network(ff.make("scaffold"), setup)
    assert_close(run.vector, naive.scaffold(setup).vector)


# --- FedDyn ---------------------------------------------------------------------------------------


@each_opt
def test_the_server_dual_of_feddyn_is_the_mean_over_all_clients(opt: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("feddyn", alpha=0.3, client_opt=opt_named(opt)), setup)
    h = [held(run.client_state(k), "h", setup.w0) for k in range(setup.N)]
    assert_close(run.server_state["H"], naive.mean(h), rel=1e-12)


@given(alpha=st.floats(1e-3, 1), size=st.integers(1, 6))
@few
def test_the_first_round_of_feddyn_is_the_fedprox_update_times_one_plus_s_over_n(alpha: float, size: int) -> None:
    setup = network_setup(schedule=(tuple(range(size)),), weighting="uniform")
    update = vector("fedprox", setup, mu=alpha) - setup.w0
    assert_close(vector("feddyn", setup, alpha=alpha), setup.w0 + (1 + size / 6) * update, rel=1e-12)


def test_feddyn_with_vanishing_alpha_is_not_fedavg() -> None:
    setup = plain_setup()
    averaged = vector("fedavg", setup)
    assert distance(vector("feddyn", setup, alpha=1e-9), averaged) > 0.1 * distance(averaged, setup.w0)
