"""Identities and limits of FedVSSAM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods import naive
from methods.bench import COHORTS, Point, assert_close, linear, network_setup, repeated_sample_setup, train_point
from methods.identities.shared import (
    EVERYONE,
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
from methods.naive import unit

ALL_ONE = {"mix_local": 1.0, "mix_global": 1.0}


@given(rho=radius, server_lr=st.floats(0.2, 1.5))
@fewer
def test_fedvssam_with_everything_fresh_is_fedsam(rho: float, server_lr: float) -> None:
    setup, sam = network_setup(weighting="uniform"), ff.SAM(rho=rho)
    run = vector("fedvssam", setup, rho=rho, **ALL_ONE, server_lr=server_lr)
    assert_close(run, vector("fedavg", setup, server_lr=server_lr, client_opt=sam), rel=1e-12)
    relative_to_one = vector("fedvssam", setup, rho=rho, **ALL_ONE)
    assert_close(relative_to_one, vector("fedsam", setup, rho=rho), rel=1e-12)


def test_fedvssam_with_everything_fresh_and_radius_zero_is_fedavg() -> None:
    setup = network_setup(weighting="uniform")
    assert_close(vector("fedvssam", setup, rho=0.0, **ALL_ONE), vector("fedavg", setup), rel=1e-12)


def test_fedvssam_with_unequal_step_counts_averages_per_step_as_fednova() -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=1, weighting="uniform")
    run = vector("fedvssam", setup, rho=0.3, **ALL_ONE)
    assert_close(run, vector("fednova", setup, client_opt=ff.SAM(rho=0.3)), rel=1e-11)
    assert distance(run, vector("fedsam", setup, rho=0.3)) > 1e-4


@given(alpha=fraction)
@fewer
def test_fedvssam_with_radius_zero_and_a_fresh_global_direction_is_fedcm(alpha: float) -> None:
    setup = network_setup()
    run = train_id("fedvssam", setup, rho=0.0, mix_local=alpha, mix_global=1.0)
    cm = train_id("fedcm", setup, alpha=alpha)
    assert_close(run.vector, cm.vector, rel=1e-11)
    assert_close(run.server_state["d"], cm.server_state["momentum"], rel=1e-10)


# --- one stage at a time ----------------------------------------------------------------------------------


@given(rho=radius, mix=fraction)
@fewer
def test_the_local_coefficient_is_that_of_both_stages_unless_given(rho: float, mix: float) -> None:
    setup = network_setup()
    both = vector("fedvssam", setup, rho=rho, mix_local=mix)
    split = {"mix_perturb": mix, "mix_update": mix}
    np.testing.assert_array_equal(vector("fedvssam", setup, rho=rho, mix_local=1.0, **split), both)


@given(mix=fraction)
@fewer
def test_mixing_the_perturbation_alone_changes_nothing_without_one(mix: float) -> None:
    setup = network_setup(weighting="uniform")
    mixed = vector("fedvssam", setup, rho=0.0, **ALL_ONE, mix_perturb=mix)
    assert_close(mixed, vector("fedavg", setup), rel=1e-12)


@given(rho=radius, mix=fraction)
@fewer
def test_mixing_the_perturbation_alone_leaves_the_first_round_of_fedsam(rho: float, mix: float) -> None:
    setup = one_round()
    assert_close(vector("fedvssam", setup, rho=rho, **ALL_ONE, mix_perturb=mix), vector("fedsam", setup, rho=rho))


@given(rho=radius, mix=fraction | st.just(1e-4))
@few
def test_mixing_the_perturbation_alone_turns_the_ascent_and_not_the_step(rho: float, mix: float) -> None:
    setup = plain_setup(schedule=(EVERYONE,) * 2, local_epochs=1)
    first = train_id("fedvssam", replace(setup, schedule=(EVERYONE,)), rho=rho, **ALL_ONE, mix_perturb=mix)
    w, d = np.asarray(first.vector), np.asarray(first.server_state["d"])
    assert_close(d, naive.mean([setup.g(k, setup.w0 + rho * unit(setup.g(k, setup.w0))) for k in EVERYONE]))
    g = [setup.g(k, w + rho * unit(mix * setup.g(k, w) + (1 - mix) * d)) for k in EVERYONE]
    run = vector("fedvssam", setup, rho=rho, **ALL_ONE, mix_perturb=mix)
    assert_close(run, w - setup.lr * naive.mean(g))


@given(rho=radius, mix=fraction)
@fewer
def test_mixing_the_local_step_alone_is_mofedsam(rho: float, mix: float) -> None:
    setup = network_setup()
    mixed = vector("fedvssam", setup, rho=rho, **ALL_ONE, mix_update=mix)
    assert_close(mixed, vector("mofedsam", setup, rho=rho, beta=mix), rel=1e-11)


@given(rho=radius, mix=fraction)
@fewer
def test_mixing_the_global_step_alone_is_fedsam_with_server_momentum(rho: float, mix: float) -> None:
    setup = network_setup(weighting="uniform", lr_decay=1.0)
    mixed = vector("fedvssam", setup, rho=rho, mix_local=1.0, mix_global=mix)
    momentum = {"server_momentum": 1 - mix, "server_lr": mix}
    assert_close(mixed, vector("fedavgm", setup, **momentum, client_opt=ff.SAM(rho=rho)), rel=1e-11)


def test_each_stage_matters() -> None:
    setup = network_setup()
    base = {"rho": 0.3, **ALL_ONE}
    actual = [vector("fedvssam", setup, **base)]
    for stage in ("mix_perturb", "mix_update", "mix_global"):
        actual.append(vector("fedvssam", setup, **{**base, stage: 0.5}))
        assert all(distance(actual[-1], other) > 1e-4 for other in actual[:-1])


# --- the direction ----------------------------------------------------------------------------------------


@given(rho=radius, a=fraction, b=fraction)
@few
def test_the_first_global_step_is_scaled_by_both_coefficients(rho: float, a: float, b: float) -> None:
    setup = one_round(local_epochs=1)
    moved = vector("fedvssam", setup, rho=rho, mix_local=a, mix_global=b) - setup.w0
    assert_close(moved, a * b * (vector("fedsam", setup, rho=rho) - setup.w0), rel=1e-11)
    several = one_round()
    slow = vector("fedsam", replace(several, lr=a * several.lr), rho=rho) - several.w0
    moved = vector("fedvssam", several, rho=rho, mix_local=a, mix_global=b) - several.w0
    assert_close(moved, b * slow, rel=1e-11)


@given(a=fraction, b=fraction, rounds=st.integers(1, 5))
@few
def test_on_a_constant_gradient_the_direction_is_smoothed_at_the_rate_of_the_product(
    a: float, b: float, rounds: int
) -> None:
    gradients = (np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    method = ff.make("fedvssam", mix_local=a, mix_global=b)
    clients = [slope(g) for g in gradients]
    local = {"loss": linear, "local_epochs": 3, "lr_decay": 0.8}
    run = train_point(method, Point(np.zeros(2)), clients, rounds=rounds, **local)
    mean = (gradients[0] + gradients[1]) / 2
    reached = [1 - (1 - a * b) ** (t + 1) for t in range(rounds)]
    assert_close(run.server_state["d"], reached[-1] * mean, rel=1e-11)
    assert_close(run.vector, -0.3 * sum(0.8**t * r for t, r in enumerate(reached)) * mean, rel=1e-11)


def test_the_global_step_uses_the_mean_number_of_local_steps() -> None:
    gradients = (np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    clients = [slope(gradients[0], 1), slope(gradients[1], 4)]
    method = ff.make("fedvssam", mix_local=0.6, mix_global=0.5, server_lr=0.7)
    run = train_point(method, Point(np.zeros(2)), clients, loss=linear, batch_size=1)
    d = 0.5 * 0.6 * (gradients[0] + gradients[1]) / 2
    assert_close(run.server_state["d"], d, rel=1e-12)
    assert_close(run.vector, -0.7 * 0.1 * 2.5 * d, rel=1e-12)


def test_fedvssam_runs_two_backprops_per_step_and_its_clients_keep_nothing() -> None:
    setup = network_setup()
    run = train_id("fedvssam", setup)
    assert [row["backprops"] for row in run.history] == [2 * setup.local_epochs * len(cohort) for cohort in COHORTS]
    assert not run.client_state(0)


@pytest.mark.parametrize("name", ["mix_local", "mix_global", "mix_perturb", "mix_update"])
def test_coefficients_above_one_are_refused(name: str) -> None:
    with pytest.raises(ff.ConfigError, match=name):
        ff.make("fedvssam", **{name: 1.5})
