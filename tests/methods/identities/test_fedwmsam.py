"""Identities and limits of FedWMSAM."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flatfed as ff
from methods.bench import COHORTS, Point, array, assert_close, linear, network_setup, repeated_sample_setup, train_point
from methods.identities.shared import (
    bowl,
    coordinates,
    distance,
    few,
    fewer,
    fraction,
    plain_setup,
    prefixes,
    radius,
    slope,
    train_id,
    vector,
)
from methods.naive import Vector, norm, unit

SINGLE = ((0,), (1,), (3,), (0,), (4,), (2,))
sign = st.sampled_from([1, -1])


@given(alpha=fraction)
@fewer
def test_fedwmsam_without_radius_control_and_adaptation_is_fedcm(alpha: float) -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=1)
    run = train_id("fedwmsam", setup, rho=0.0, alpha=alpha, lam=0.0, control=False)
    cm = train_id("fedcm", setup, alpha=alpha)
    assert_close(run.vector, cm.vector, rel=1e-12)
    assert_close(run.server_state["momentum"], cm.server_state["momentum"], rel=1e-11)
    assert "c" not in run.server_state


def test_fedwmsam_with_alpha_one_and_without_radius_and_adaptation_is_scaffold() -> None:
    setup = repeated_sample_setup(batch_size=2, local_epochs=1)
    run, scaffold = train_id("fedwmsam", setup, rho=0.0, alpha=1.0, lam=0.0), train_id("scaffold", setup)
    assert_close(run.vector, scaffold.vector, rel=1e-12)
    assert_close(run.server_state["c"], scaffold.server_state["c"], rel=1e-11)


def test_fedwmsam_with_alpha_one_and_without_radius_and_control_is_fedavg() -> None:
    setup = network_setup(weighting="uniform")
    run = train_id("fedwmsam", setup, rho=0.0, alpha=1.0, lam=0.0, control=False)
    assert_close(run.vector, vector("fedavg", setup), rel=1e-12)
    assert_close(train_id("fedwmsam", network_setup(), rho=0.0, alpha=1.0, lam=0.0, control=False).vector, run.vector)


@pytest.mark.parametrize("control", [True, False])
@given(alpha=st.floats(0.1, 0.9), lam=st.floats(0, 1))
@fewer
def test_alpha_stays_within_its_bounds_and_moves_slowly(control: bool, alpha: float, lam: float) -> None:
    setup, before = network_setup(), alpha
    for part in prefixes(setup):
        run = train_id("fedwmsam", part, rho=0.2, alpha=alpha, lam=lam, control=control)
        now = float(run.server_state["alpha"])
        assert 0.1 - 1e-12 <= now <= 0.9 + 1e-12
        assert abs(now - before) <= lam * 0.8 + 1e-12
        before = now


@given(alpha=st.floats(0.1, 0.9), lam=fraction)
@fewer
def test_alpha_follows_the_cosine_of_update_and_momentum(alpha: float, lam: float) -> None:
    setup = network_setup(schedule=SINGLE)
    w, momentum, expected = setup.w0, setup.zeros(), alpha
    for part in prefixes(setup):
        run = train_id("fedwmsam", part, rho=0.2, alpha=alpha, lam=lam)
        update = array(run.vector) - w  # of the one client of the round
        cosine = update @ momentum / (norm(update) * norm(momentum)) if momentum.any() else -1.0
        expected = (1 - lam) * expected + lam * np.clip(1 + cosine, 0.1, 0.9)
        assert float(run.server_state["alpha"]) == pytest.approx(expected, rel=1e-9)
        w, momentum = array(run.vector), array(run.server_state["momentum"])


@pytest.mark.parametrize(("second", "target"), [(1.0, 0.1), (-5.0, 0.9)], ids=["aligned", "opposed"])
def test_agreement_lowers_alpha_and_opposition_raises_it(second: float, target: float) -> None:
    g, alpha, lam = np.array([1.0, -2.0]), 0.5, 0.25
    clients, schedule = [slope(g), slope(second * g)], [(0,), (1,)]
    method = ff.make("fedwmsam", rho=0.0, alpha=alpha, lam=lam, control=False)
    run = train_point(method, Point(np.zeros(2)), clients, schedule=schedule, loss=linear)
    after_one = (1 - lam) * alpha + lam * 0.1  # no momentum to compare with
    assert float(run.server_state["alpha"]) == pytest.approx((1 - lam) * after_one + lam * target, rel=1e-12)


def test_alpha_follows_the_mean_over_the_clients_of_the_round() -> None:
    gradients, alpha, lam = (np.array([3.0, -1.0]), np.array([-2.0, 3.0]), np.array([0.5, 0.5])), 0.5, 0.25
    method = ff.make("fedwmsam", rho=0.0, alpha=alpha, lam=lam, control=False)
    clients = [slope(g) for g in gradients]
    run = train_point(method, Point(np.zeros(2)), clients, rounds=2, loss=linear, local_epochs=2)
    momentum = alpha * (gradients[0] + gradients[1] + gradients[2]) / 3
    after_one = (1 - lam) * alpha + lam * 0.1
    steps = [after_one * g + (1 - after_one) * momentum for g in gradients]
    similarity = np.mean([1 - unit(step) @ unit(momentum) for step in steps])
    target = np.clip(similarity, 0.1, 0.9)
    assert float(run.server_state["alpha"]) == pytest.approx((1 - lam) * after_one + lam * target, rel=1e-12)
    assert 0.1 < similarity < 0.9


def test_alpha_does_not_move_without_adaptation() -> None:
    run = train_id("fedwmsam", network_setup(), alpha=0.37, lam=0.0)
    assert float(run.server_state["alpha"]) == 0.37


@given(rho=radius, perturb_sign=sign)
@few
def test_the_first_local_step_is_not_perturbed(rho: float, perturb_sign: int) -> None:
    setup = network_setup(local_epochs=1)
    perturbed = vector("fedwmsam", setup, rho=rho, perturb_sign=perturb_sign)
    np.testing.assert_array_equal(perturbed, vector("fedwmsam", setup, rho=0.0))


@given(w=coordinates, rho=radius, alpha=fraction, perturb_sign=sign)
@few
def test_the_second_local_step_of_the_first_round_looks_back_to_the_start(
    w: Vector, rho: float, alpha: float, perturb_sign: int
) -> None:
    lr, curvature = 0.1, np.arange(1.0, 5.0)
    method = ff.make("fedwmsam", rho=rho, alpha=alpha, perturb_sign=perturb_sign)
    run = train_point(method, Point(w), [bowl(np.zeros(4), curvature)], lr=lr, local_epochs=2)
    w1 = w - lr * alpha * curvature * w
    looking = w1 + perturb_sign * rho * unit(w - w1)
    assert_close(run.vector, w1 - lr * alpha * curvature * looking, rel=1e-11)


@given(w=coordinates, rho=radius, alpha=fraction, perturb_sign=sign)
@few
def test_later_rounds_look_from_the_point_where_the_momentum_would_be(
    w: Vector, rho: float, alpha: float, perturb_sign: int
) -> None:
    """One client: its control variate is the server's, so nothing is left of the correction."""
    lr, K, curvature = 0.1, 3, np.arange(1.0, 5.0)
    method = ff.make("fedwmsam", rho=rho, alpha=alpha, lam=0.0, perturb_sign=perturb_sign)
    run = train_point(method, Point(w), [bowl(np.zeros(4), curvature)], rounds=3, lr=lr, local_epochs=K)
    momentum = np.zeros(4)
    for _ in range(3):
        v = w
        for b in range(K):
            eps = perturb_sign * rho * unit(w + b * momentum - v)
            v = v - lr * (alpha * curvature * (v + eps) + (1 - alpha) * momentum)
        w, momentum = v, (w - v) / (lr * K)
    assert_close(run.vector, w, rel=1e-9)


def test_the_correction_bends_both_the_step_and_the_point_looked_from() -> None:
    """Round 2 of one client of two, whose control variate is twice the server's."""
    lr, alpha, rho, curvature = 0.1, 0.4, 0.3, np.array([1.0, 3.0])
    w = np.array([2.0, -1.0])
    clients = [bowl(np.zeros(2), curvature), bowl(np.ones(2))]
    method = ff.make("fedwmsam", rho=rho, alpha=alpha, lam=0.0)
    run = train_point(method, Point(w), clients, schedule=[(0,), (0,)], lr=lr, local_epochs=2)
    start, c, c_0, momentum = w, np.zeros(2), np.zeros(2), np.zeros(2)
    for _ in range(2):
        own = momentum + alpha / (1 - alpha) * (c - c_0)
        v = start
        for b in range(2):
            eps = rho * unit(start + b * own - v)
            v = v - lr * (alpha * curvature * (v + eps) + (1 - alpha) * own)
        momentum = (start - v) / (2 * lr)
        fresh = c_0 - c + momentum
        c, c_0, start = c + (fresh - c_0) / 2, fresh, v
    assert_close(run.vector, start, rel=1e-10)
    assert_close(run.server_state["c"], c, rel=1e-10)


def test_the_signs_of_the_perturbation_differ() -> None:
    up, down = (vector("fedwmsam", plain_setup(), rho=0.3, perturb_sign=s) for s in (1, -1))
    assert distance(up, down) > 1e-4


def test_fedwmsam_runs_one_backprop_per_step() -> None:
    setup = network_setup()
    run = train_id("fedwmsam", setup, rho=0.3)
    assert [row["backprops"] for row in run.history] == [setup.local_epochs * len(cohort) for cohort in COHORTS]


def test_clients_of_fedwmsam_keep_nothing() -> None:
    assert not train_id("fedwmsam", network_setup()).client_state(0)


def test_a_radius_with_alpha_one_is_refused() -> None:
    with pytest.raises(ff.ConfigError, match="alpha"):
        ff.make("fedwmsam", alpha=1.0, rho=0.1)
    with pytest.raises(ff.ConfigError, match="alpha"):
        ff.make("fedwmsam", alpha=1.0)
    with pytest.raises(ff.ConfigError, match="perturb_sign"):
        ff.make("fedwmsam", perturb_sign=2)


# --- the poster read literally ----------------------------------------------------------------------------


def test_the_poster_after_one_round_in_closed_form() -> None:
    """Constant gradients, no momentum yet: every step is alpha g; clients take two steps and four."""
    lr, alpha, lam = 0.1, 0.4, 0.5
    gradients = (np.array([1.0, -2.0]), np.array([3.0, 1.0]))
    clients = [slope(g, n) for g, n in zip(gradients, (2, 4), strict=True)]
    method = ff.make("fedwmsam", rho=0.3, alpha=alpha, lam=lam, reading="poster")
    run = train_point(method, Point(np.zeros(2)), clients, loss=linear, lr=lr, batch_size=1)
    slopes = [-alpha * g for g in gradients]  # (w_k - w)/(lr K_k)
    assert_close(run.vector, -lr * alpha * (2 * gradients[0] + 4 * gradients[1]) / 2, rel=1e-12)
    assert_close(run.server_state["c"], (slopes[0] + slopes[1]) / 2, rel=1e-12)
    assert_close(run.server_state["momentum"], -(slopes[0] + slopes[1]) / 2, rel=1e-12)
    assert float(run.server_state["alpha"]) == pytest.approx((1 - lam) * alpha + lam * 0.1)  # no angle: 0, clipped


def test_the_poster_adds_the_client_s_own_control_variate() -> None:
    """The second round of the first client alone."""
    lr, alpha, g = 0.1, 0.4, np.array([1.0, -2.0])
    method = ff.make("fedwmsam", rho=0.0, alpha=alpha, lam=0.0, reading="poster")
    clients = [slope(g), slope(3 * g)]
    run = train_point(method, Point(np.zeros(2)), clients, schedule=[(0,), (0,)], loss=linear, lr=lr)
    c_0, momentum = alpha * g, alpha * g  # after the first round: c_0 <- 0 - 0 + alpha g
    second = alpha * (g + c_0) + (1 - alpha) * momentum
    assert_close(run.vector, -lr * (alpha * g + second), rel=1e-12)
    assert_close(run.server_state["c"], -(alpha * g + second), rel=1e-12)


def test_the_poster_lowers_alpha_also_where_clients_oppose_the_momentum_less() -> None:
    """The plain cosine: an update along the momentum points against it, and is clipped like one at a right angle."""
    g, alpha, lam = np.array([1.0, -2.0]), 0.5, 0.25
    for second, target in ((1.0, 0.1), (-5.0, 0.9)):
        method = ff.make("fedwmsam", rho=0.0, alpha=alpha, lam=lam, control=False, reading="poster")
        clients, schedule = [slope(g), slope(second * g)], [(0,), (1,)]
        run = train_point(method, Point(np.zeros(2)), clients, schedule=schedule, loss=linear)
        after_one = (1 - lam) * alpha + lam * 0.1
        assert float(run.server_state["alpha"]) == pytest.approx((1 - lam) * after_one + lam * target, rel=1e-12)
    sideways = [slope(np.array([1.0, 0.0])), slope(np.array([-0.5, 1.0]))]
    runs = {
        reading: train_point(
            ff.make("fedwmsam", rho=0.0, alpha=0.9, lam=lam, control=False, reading=reading),
            *(Point(np.zeros(2)), sideways),
            schedule=[(0,), (1,)],
            loss=linear,
        )
        for reading in ("code", "poster")
    }
    assert float(runs["poster"].server_state["alpha"]) < float(runs["code"].server_state["alpha"])
