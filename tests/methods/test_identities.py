"""Identities and limits: flat-algorithms.md section 6 (F), baselines.md section 4 (B), and their "Limits"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import nn

import flatfed as ff
from methods import naive
from methods.bench import (
    COHORTS,
    Point,
    Shift,
    array,
    assert_close,
    client_opt,
    held,
    linear,
    network_setup,
    train_network,
    train_point,
)
from methods.naive import Setup, Vector, norm, unit
from methods.table import CLIENT_OPTS

few = settings(max_examples=8, deadline=None, derandomize=True, database=None)
radius = st.floats(1e-3, 2.0)
coordinates = arrays(np.float64, 4, elements=st.floats(0.1, 2.0) | st.floats(-2.0, -0.1))
each_opt = pytest.mark.parametrize("opt", CLIENT_OPTS)
PAIRS = ((0, 3), (1, 2), (3, 4), (0, 2), (4, 1), (2, 3))  # two clients in every round


def opt_named(name: str) -> Any:
    return client_opt(CLIENT_OPTS[name])


def vector(method_id: str, setup: Setup, **params: Any) -> Vector:
    return array(train_network(ff.make(method_id, **params), setup).vector)


def plain_setup(**changes: Any) -> Setup:
    """As baselines.md section 4 asks: no weight decay, no clip; uniform so that every method compares."""
    return network_setup(**{"weight_decay": 0.0, "lr_decay": 1.0, "weighting": "uniform", **changes})


def distance(a: Vector, b: Vector) -> float:
    return float(np.linalg.norm(a - b))


def bowl(centre: Vector, curvature: Vector | float = 1.0, n: int = 3) -> tuple[Vector, Vector]:
    """The client whose objective is 1/2 |a w - y|^2 with a^2 = curvature and minimum at `centre`."""
    a = np.sqrt(np.broadcast_to(np.asarray(curvature, dtype=np.float64), centre.shape))
    return np.tile(a, (n, 1)), np.tile(a * centre, (n, 1))


def slope(gradient: Vector, n: int = 3) -> tuple[Vector, Vector]:
    """The client whose gradient is the same everywhere (with the loss `linear`)."""
    return np.ones((n, len(gradient))), np.tile(gradient, (n, 1))


def round_bowl_perturbation(method: Any, model: nn.Module, w: Vector) -> Vector:
    """eps of one SAM-type step on 1/2 |w|^2, where the gradient at w + eps is w + eps itself."""
    lr = 0.1
    run = train_point(method, model, [bowl(np.zeros_like(w))], lr=lr)
    return (w - array(run.vector)) / lr - w


# --- the local step: clip, weight decay, momentum ---------------------------------------------------------


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


# --- SAM and ASAM (F 6.1 to 6.3, B 4.12) ------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "fedavgm", "scaffold", "feddyn", "fedgloss"])
@pytest.mark.parametrize("opt", [ff.SAM(rho=0.0), ff.ASAM(rho=0.0)], ids=["sam", "asam"])
def test_radius_zero_is_sgd(method: str, opt: Any) -> None:
    setup = network_setup()
    perturbed = train_network(ff.make(method, client_opt=opt), setup)
    plain = train_network(ff.make(method), setup)
    assert torch.equal(perturbed.vector, plain.vector)
    assert [row["backprops"] for row in perturbed.history] == [2 * row["backprops"] for row in plain.history]


@pytest.mark.parametrize("method", ["fedsam", "fedasam"])
def test_fedsam_and_fedasam_with_radius_zero_are_fedavg(method: str) -> None:
    setup = network_setup()
    np.testing.assert_array_equal(vector(method, setup, rho=0.0), vector("fedavg", setup))


@given(w=coordinates, rho=radius)
@few
def test_the_sam_perturbation_has_length_rho_along_the_gradient(w: Vector, rho: float) -> None:
    eps = round_bowl_perturbation(ff.make("fedsam", rho=rho), Point(w), w)
    assert_close(eps, rho * unit(w), rel=1e-10, floor=1e-12)


@given(w=coordinates, b=coordinates, rho=radius, eta=st.floats(0, 1))
@few
def test_the_asam_perturbation_has_length_rho_in_its_own_scale(w: Vector, b: Vector, rho: float, eta: float) -> None:
    both = np.concatenate([w, b])
    eps = round_bowl_perturbation(ff.make("fedasam", rho=rho, eta=eta), Point(w, b), both)
    T = np.concatenate([np.abs(w) + eta, np.ones_like(b)])
    assert norm(eps / T) == pytest.approx(rho, rel=1e-9)
    assert_close(eps, rho * T**2 * both / norm(T * both), rel=1e-9)


@given(w=coordinates, rho=radius)
@few
def test_asam_without_weights_is_sam(w: Vector, rho: float) -> None:
    client = [bowl(np.ones(4), 2.0)]
    asam = train_point(ff.make("fedasam", rho=rho), Shift(w), client, rounds=2, local_epochs=2)
    sam = train_point(ff.make("fedsam", rho=rho), Shift(w), client, rounds=2, local_epochs=2)
    assert_close(asam.vector, sam.vector, rel=1e-13)


@given(signs=arrays(np.float64, 4, elements=st.sampled_from([-1.0, 1.0])), rho=radius)
@few
def test_asam_on_weights_of_size_one_is_sam(signs: Vector, rho: float) -> None:
    centre = np.array([3.0, -2.0, 5.0, 0.5])
    asam = train_point(ff.make("fedasam", rho=rho, eta=0.0), Point(signs), [bowl(centre)])
    sam = train_point(ff.make("fedsam", rho=rho), Point(signs), [bowl(centre)])
    assert_close(asam.vector, sam.vector, rel=1e-13)


@given(rho=radius, eta=st.floats(0.05, 1))
@few
def test_asam_on_zero_weights_is_sam_with_radius_rho_eta(rho: float, eta: float) -> None:
    centre = np.array([3.0, -2.0, 5.0, 0.5])
    asam = train_point(ff.make("fedasam", rho=rho, eta=eta), Point(np.zeros(4)), [bowl(centre)])
    sam = train_point(ff.make("fedsam", rho=rho * eta), Point(np.zeros(4)), [bowl(centre)])
    assert_close(asam.vector, sam.vector, rel=1e-12)


@given(w=coordinates, rho=radius)
@few
def test_asam_with_large_eta_tends_to_sam(w: Vector, rho: float) -> None:
    eta = 1e8
    client = [bowl(np.ones(4), np.arange(1.0, 5.0))]
    asam = train_point(ff.make("fedasam", rho=rho / eta, eta=eta), Point(w), client, local_epochs=3)
    sam = train_point(ff.make("fedsam", rho=rho), Point(w), client, local_epochs=3)
    assert_close(asam.vector, sam.vector, rel=1e-6)


class ReluPair(nn.Module):
    def __init__(self, first: Vector, second: Vector) -> None:
        super().__init__()
        self.first_weight = nn.Parameter(torch.tensor(first))
        self.second_weight = nn.Parameter(torch.tensor(second))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.first_weight.T) @ self.second_weight.T


@pytest.mark.parametrize(("method", "invariant"), [("fedasam", True), ("fedsam", False)])
def test_only_asam_ignores_the_rescaling_of_two_layers(method: str, invariant: bool) -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(2, 4))
    client = [(rng.normal(size=(8, 3)), rng.normal(size=(8, 2)))]
    params = {"rho": 0.5, "eta": 0.0} if method == "fedasam" else {"rho": 0.5}

    def descent(a: float) -> Vector:
        """The perturbed gradient, brought back to the scale of a = 1."""
        start = np.concatenate([(first * a).ravel(), (second / a).ravel()])
        run = train_point(ff.make(method, **params), ReluPair(first * a, second / a), client, lr=0.1)
        return (start - array(run.vector)) / 0.1 * np.repeat([a, 1 / a], [first.size, second.size])

    assert (distance(descent(1.0), descent(3.0)) < 1e-9) == invariant


@each_opt
def test_weights_are_restored_bit_for_bit_after_the_perturbation(opt: str) -> None:
    setup = plain_setup(lr=1e-300, schedule=((0,), (1,), (3,)))
    method = ff.make("fedavg", client_opt=opt_named(opt))
    np.testing.assert_array_equal(array(train_network(method, setup).vector), setup.w0)


@pytest.mark.parametrize("method", ["fedsam", "fedasam"])
def test_the_first_gradient_at_zero_perturbs_nothing(method: str) -> None:
    w = np.array([1.0, -2.0])
    local = {"lr": 0.1, "weight_decay": 0.3, "local_epochs": 2}
    run = train_point(ff.make(method, rho=0.5), Point(w), [slope(np.zeros(2))], loss=linear, **local)
    assert_close(run.vector, w * (1 - 0.03) ** 2, rel=1e-15)


def test_one_client_and_one_step_is_centralised_sam() -> None:
    setup = plain_setup(schedule=((3,),) * 4, local_epochs=1)
    w = setup.w0
    for _ in range(4):
        w = w - setup.lr * setup.g(3, w + 0.3 * unit(setup.g(3, w)))
    assert_close(vector("fedsam", setup, rho=0.3), w)


@pytest.mark.parametrize(("method", "opt"), [("fedsam", "sam"), ("fedasam", "asam")])
def test_the_named_methods_are_fedavg_with_the_client_optimiser(method: str, opt: str) -> None:
    setup, o = network_setup(), CLIENT_OPTS[opt]
    params = {"rho": o.rho, "eta": o.eta} if opt == "asam" else {"rho": o.rho}
    named = vector(method, setup, **params)
    np.testing.assert_array_equal(named, vector("fedavg", setup, client_opt=opt_named(opt)))


# --- FedAvg, FedProx, FedAvgM (B 4.1, 4.2) ----------------------------------------------------------------


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


# --- SCAFFOLD (B 4.5) -------------------------------------------------------------------------------------

CENTRES = (np.array([1.0, -2.0, 0.5]), np.array([-3.0, 1.0, 2.0]), np.array([0.0, 4.0, -1.0]))
CURVATURES = (np.array([1.0, 0.5, 2.0]), np.array([0.3, 2.0, 1.0]), np.array([1.5, 1.0, 0.4]))
HETEROGENEOUS = [bowl(centre, curvature) for centre, curvature in zip(CENTRES, CURVATURES, strict=True)]
OPTIMUM = sum(c * a for c, a in zip(CENTRES, CURVATURES, strict=True)) / sum(CURVATURES)
TWO_OF_THREE = ((0, 1), (1, 2), (2, 0))


def point_run(method: Any, rounds: int, partial: bool = False, **local: Any) -> Any:
    schedule = [TWO_OF_THREE[t % 3] for t in range(rounds)] if partial else [(0, 1, 2)] * rounds
    return train_point(method, Point(np.zeros(3)), HETEROGENEOUS, schedule=schedule, **local)


def test_fedavg_misses_the_optimum_of_heterogeneous_quadratics() -> None:
    lr, K = 0.2, 5
    run = point_run(ff.make("fedavg"), 150, lr=lr, local_epochs=K)
    pulls = [1 - (1 - lr * a) ** K for a in CURVATURES]
    own_fixed_point = sum(c * p for c, p in zip(CENTRES, pulls, strict=True)) / sum(pulls)
    assert_close(run.vector, own_fixed_point, rel=1e-9)
    assert distance(array(run.vector), OPTIMUM) > 0.1


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_reaches_the_optimum_of_heterogeneous_quadratics(option: str) -> None:
    run = point_run(ff.make("scaffold", option=option), 150, lr=0.2, local_epochs=5)
    assert_close(run.vector, OPTIMUM, rel=1e-9)


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


# --- FedDyn (B 4.7) ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("partial", [False, True], ids=["full", "partial"])
@pytest.mark.parametrize(("alpha", "rounds", "rel"), [(0.1, 120, 2e-3), (1.0, 40, 1e-6)])
def test_feddyn_reaches_the_optimum_of_heterogeneous_quadratics(
    alpha: float, rounds: int, rel: float, partial: bool
) -> None:
    run = point_run(ff.make("feddyn", alpha=alpha), rounds, partial, lr=0.4, local_epochs=15)
    assert_close(run.vector, OPTIMUM, rel=rel)


def test_feddyn_with_vanishing_alpha_is_not_fedavg() -> None:
    setup = plain_setup()
    averaged = vector("fedavg", setup)
    assert distance(vector("feddyn", setup, alpha=1e-9), averaged) > 0.1 * distance(averaged, setup.w0)


# --- FedSMOO (B 4.9) --------------------------------------------------------------------------------------


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


# --- FedGMT (B 4.14) --------------------------------------------------------------------------------------


def test_fedgmt_without_distillation_is_feddyn_without_the_proximal_term() -> None:
    setup = network_setup(weighting="uniform")
    expected = naive.feddyn(setup, alpha=0.25, prox=False)
    assert_close(vector("fedgmt", setup, gamma=0.0, beta=4.0), expected.vector)


def test_fedgmt_without_distillation_and_with_one_step_is_feddyn() -> None:
    setup = network_setup(weighting="uniform", local_epochs=1)
    assert_close(vector("fedgmt", setup, gamma=0.0, beta=4.0), vector("feddyn", setup, alpha=0.25), rel=1e-12)


def test_fedgmt_without_distillation_reaches_the_optimum_for_a_moderate_dual_gain() -> None:
    run = point_run(ff.make("fedgmt", gamma=0.0, beta=2.0), 150, lr=0.2, local_epochs=5)
    assert_close(run.vector, OPTIMUM, rel=1e-8)


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


# --- FedGF (F 6.9) ----------------------------------------------------------------------------------------


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


# --- FedGloSS (F 6.5) -------------------------------------------------------------------------------------


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
    setup, o = plain_setup(local_epochs=2, schedule=((0,), (0,))), CLIENT_OPTS["sam"]
    method = ff.make("fedgloss", rho_server=0.0, beta=2.0, client_opt=client_opt(o))
    expected = naive.fedgloss(setup, o, rho_server=0.0, beta=2.0)
    assert_close(train_network(method, setup).vector, expected.vector)


@pytest.mark.parametrize("method", ["fedgloss", "naivefedgloss"])
@pytest.mark.parametrize("opt", ["sam", "asam"])
def test_the_warm_up_raises_the_client_radius_linearly_and_then_keeps_it(method: str, opt: str) -> None:
    o = CLIENT_OPTS[opt]
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


# --- NaiveFedGloSS (F 6.6) --------------------------------------------------------------------------------


@pytest.mark.parametrize("dual", ["paper", "official"])
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


# --- SWA (F 6.4, B 4.15) ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
@pytest.mark.parametrize("method", ["fedavg", "fedasam", "feddyn", "fedgloss"])
def test_swa_with_a_constant_rate_leaves_the_trajectory_alone(method: str, mode: str) -> None:
    setup = network_setup(lr_decay=1.0)
    average = ff.SWA(start=1 / 3, cycle=2, lr_low=setup.lr, mode=mode)
    averaged = train_network(ff.make(method), setup, average=average)
    plain = train_network(ff.make(method), setup)
    assert_close(averaged.vector, plain.vector, rel=1e-13)
    assert distance(array(averaged.eval_vector), array(averaged.vector)) > 1e-4


def swa_weights_of_a_run(mode: str, rounds: int, start: float, cycle: int) -> Vector:
    """What the model after each round weighs in the average.

    Client t pushes coordinate t alone, by 1, in round t alone: coordinate t of the average is the weight of
    all the models from round t on.
    """
    eye = np.eye(rounds)
    run = train_point(
        ff.make("fedavg"),
        Point(np.zeros(rounds)),
        [slope(-eye[t], n=1) for t in range(rounds)],
        schedule=[(t,) for t in range(rounds)],
        loss=linear,
        lr=1.0,
        average=ff.SWA(start=start, cycle=cycle, lr_low=1.0, mode=mode),
    )
    np.testing.assert_allclose(array(run.vector), 1.0, rtol=1e-12)
    later = np.append(array(run.eval_vector), 0.0)
    return later[:-1] - later[1:]


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
def test_swa_weights_its_captures_as_its_mode_says(mode: str) -> None:
    rounds, t0, c = 400, 300, 10
    found = swa_weights_of_a_run(mode, rounds, 0.75, c)
    expected = np.zeros(rounds)
    if mode == "official":
        expected[range(t0 + c, rounds, c)] = 1 / 9  # as 249 of 1/249 for 10000 rounds
    elif mode == "end-of-cycle":
        expected[range(t0 + c - 1, rounds, c)] = 1 / 10
    else:
        expected[range(t0, rounds, c)] = 1 / 40  # as 250 of 0.001 for 10000 rounds
        expected[t0 - 1] = 0.75  # the model at the start of round t0
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(
    mode=st.sampled_from(["end-of-cycle", "official", "paper"]),
    rounds=st.integers(4, 24),
    t0=st.integers(1, 24),
    cycle=st.integers(1, 7),
)
@settings(few, max_examples=15)
def test_swa_weights_for_any_start_and_cycle(mode: str, rounds: int, t0: int, cycle: int) -> None:
    t0 = min(t0, rounds - 1)
    found = swa_weights_of_a_run(mode, rounds, t0 / rounds, cycle)
    expected = np.zeros(rounds)
    for t, weight in naive.swa_weights(mode, rounds, t0, cycle).items():
        expected[t0 - 1 if t == -1 else t] += weight
    if not expected.any():
        expected[-1] = 1.0
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
def test_swa_is_off_when_it_starts_at_the_end(mode: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=1.0, cycle=2, mode=mode))
    np.testing.assert_array_equal(array(run.vector), vector("fedavg", setup))
    assert torch.equal(run.eval_vector, run.vector)


@pytest.mark.parametrize("mode", ["end-of-cycle", "official", "paper"])
def test_a_cycle_of_one_leaves_the_rate_alone(mode: str) -> None:
    setup = network_setup()
    run = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=0.5, cycle=1, mode=mode))
    np.testing.assert_array_equal(array(run.vector), vector("fedavg", setup))


@pytest.mark.parametrize(
    ("mode", "phases"),
    [
        ("end-of-cycle", [1 / 3, 2 / 3, 1, 1 / 3]),
        ("official", [1, 1 / 3, 2 / 3, 1]),
        ("paper", [2 / 3, 1, 1 / 3, 2 / 3]),
    ],
)
def test_the_cycle_runs_from_the_decayed_rate_to_the_low_one(mode: str, phases: list[float]) -> None:
    setup = network_setup()  # rounds 2 to 5 of 6
    run = train_network(ff.make("fedavg"), setup, average=ff.SWA(start=1 / 3, cycle=3, lr_low=0.01, mode=mode))
    decayed = [setup.lr * setup.lr_decay**t for t in range(6)]
    expected = decayed[:2] + [(1 - u) * high + u * 0.01 for u, high in zip(phases, decayed[2:], strict=True)]
    assert [row["lr"] for row in run.history] == pytest.approx(expected, rel=1e-12)
