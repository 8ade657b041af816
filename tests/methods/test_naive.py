"""The reference must be right by itself: its gradients and a few closed forms, without flatfed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from methods import naive
from methods.naive import DIMENSION, Opt, Outcome, Setup, Vector, Wima

few = settings(max_examples=10)
parameters = arrays(np.float64, DIMENSION, elements=st.floats(-2, 2))


def difference_quotient(f: Callable[[Vector], float], w: Vector, h: float = 1e-5) -> Vector:
    return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])


@given(w=parameters)
@few
def test_the_cross_entropy_gradient_is_the_difference_quotient(w: Vector) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, naive.INPUTS)), rng.integers(0, naive.CLASSES, 7)
    expected = difference_quotient(lambda v: naive.cross_entropy(v, x, y), w)
    np.testing.assert_allclose(naive.cross_entropy_gradient(w, x, y), expected, atol=1e-8)


@given(w=parameters, e=parameters, tau=st.floats(0.5, 4))
@few
def test_the_distillation_gradient_is_the_difference_quotient(w: Vector, e: Vector, tau: float) -> None:
    x = np.random.default_rng(1).normal(size=(6, naive.INPUTS))
    expected = difference_quotient(lambda v: naive.kl(v, e, x, tau), w)
    np.testing.assert_allclose(naive.kl_gradient(w, e, x, tau), expected, atol=1e-8)


def test_the_weight_mask_follows_the_parameter_names() -> None:
    assert naive.IS_WEIGHT.tolist() == [True] * 20 + [False] * 4 + [True] * 12 + [False] * 3


def test_official_swa_averages_249_captures_uniformly() -> None:
    held = naive.swa_weights("official", 10_000, 7500, 10)
    assert len(held) == 249
    np.testing.assert_allclose(list(held.values()), 1 / 249, rtol=1e-12)


def test_paper_swa_leaves_three_quarters_on_the_snapshot() -> None:
    held = naive.swa_weights("paper", 10_000, 7500, 10)
    assert held.pop(-1) == pytest.approx(0.75, rel=1e-12)
    assert len(held) == 250
    np.testing.assert_allclose(list(held.values()), 0.001, rtol=1e-12)


# --- what the methods are of each other -------------------------------------------------------------------

EVERYONE = (0, 1, 2, 3)
PARTIAL = ((0, 3), (1, 2), (2,), (0, 1, 2), (3, 0))
SAM = Opt("sam", 0.3)


def problem(**changes: Any) -> Setup:
    rng = np.random.default_rng(5)
    clients = [(rng.normal(size=(n, naive.INPUTS)), rng.integers(0, naive.CLASSES, n)) for n in (4, 7, 3, 5)]
    plain = {"schedule": PARTIAL, "weighting": "uniform", "weight_decay": 0.03, "lr_decay": 0.9}
    return Setup(w0=rng.normal(size=DIMENSION), clients=clients, **{**plain, **changes})


def same(a: Outcome, b: Outcome, rel: float = 1e-12) -> bool:
    return bool(naive.norm(a.vector - b.vector) <= rel * naive.norm(b.vector - b.setup.w0))


METHODS_EQUAL_TO_ANOTHER: dict[str, tuple[Callable[[Setup], Outcome], Callable[[Setup], Outcome]]] = {
    "vasso without memory is sam": (
        lambda s: naive.fedavg(s, Opt("vasso", 0.3, {"theta": 1.0})),
        lambda s: naive.fedavg(s, SAM),
    ),
    "fsam without memory is sam": (
        lambda s: naive.fedavg(s, Opt("fsam", 0.3, {"sigma": 0.0, "lam": 0.6})),
        lambda s: naive.fedavg(s, SAM),
    ),
    "fsam of the updated memory": (
        lambda s: naive.fedavg(s, Opt("fsam", 0.3, {"sigma": 1.0, "lam": 0.6})),
        lambda s: fedavg_with_the_printed_fsam(s, 0.3, 0.6),
    ),
    "fedadam with a large tau is fedavg": (
        lambda s: naive.fedadam(s, server_lr=1e14, beta1=0.0, tau=1e14, v0=0.0),
        naive.fedavg,
    ),
    "fednova with equal steps is fedavg": (naive.fednova, naive.fedavg),
    "scaffold with the change formed by the server": (lambda s: naive.scaffold(s, send_dc=False), naive.scaffold),
    "fedgamma of radius 0 is scaffold": (lambda s: naive.fedgamma(s, rho=0.0), naive.scaffold),
    "adabest without corrections is fedavg": (lambda s: naive.adabest(s, beta=0.0, mu=0.0), naive.fedavg),
    "fedcm of fresh gradients is fedavg": (lambda s: naive.fedcm(s, alpha=1.0), naive.fedavg),
    "mofedsam of radius 0 is fedcm": (lambda s: naive.mofedsam(s, 0.0, 0.4), lambda s: naive.fedcm(s, alpha=0.4)),
    "mofedsam of fresh gradients is fedsam": (lambda s: naive.mofedsam(s, 0.3, 1.0), lambda s: naive.fedsam(s, 0.3)),
    "fedacg without momentum is fedprox": (
        lambda s: naive.fedacg(s, lam=0.0, beta=0.4),
        lambda s: naive.fedprox(s, mu=0.4),
    ),
    "mimelite without momentum is fedavg": (lambda s: naive.mimelite(s, beta=0.0), naive.fedavg),
    "fedspeed of radius 0 is feddyn": (
        lambda s: naive.fedspeed(s, rho=0.0, alpha=0.7, lam=3.0),
        lambda s: naive.feddyn(s, alpha=1 / 3),
    ),
    "fedspeed of first gradients is feddyn": (
        lambda s: naive.fedspeed(s, rho=0.3, alpha=0.0, lam=3.0, normalise=False),
        lambda s: naive.feddyn(s, alpha=1 / 3),
    ),
    "fedspeed of second gradients is feddyn with sam": (
        lambda s: naive.fedspeed(s, rho=0.3, alpha=1.0, lam=3.0),
        lambda s: naive.feddyn(s, SAM, alpha=1 / 3),
    ),
    "fedlesam of radius 0 is fedavg": (lambda s: naive.fedlesam(s, rho=0.0), naive.fedavg),
    "fedlesam-s of radius 0 is scaffold": (lambda s: naive.fedlesam_s(s, rho=0.0), naive.scaffold),
    "fedlesam-s with the change formed by the server": (
        lambda s: naive.fedlesam_s(s, rho=0.3, send_dc=False),
        lambda s: naive.fedlesam_s(s, rho=0.3),
    ),
    "fedlesam-d of radius 0 is feddyn": (
        lambda s: naive.fedlesam_d(s, rho=0.0, beta=4.0),
        lambda s: naive.feddyn(s, alpha=0.25),
    ),
    "fedwmsam without its modules is fedcm": (
        lambda s: naive.fedwmsam(s, rho=0.0, alpha=0.4, lam=0.0, control=False),
        lambda s: naive.fedcm(s, alpha=0.4),
    ),
    "fedwmsam of fresh gradients is scaffold": (
        lambda s: naive.fedwmsam(s, rho=0.0, alpha=1.0, lam=0.0),
        naive.scaffold,
    ),
    "fedvssam without mixing is fedsam": (
        lambda s: naive.fedvssam(s, rho=0.3, mix_local=1.0, mix_global=1.0),
        lambda s: naive.fedsam(s, 0.3),
    ),
    "fedvssam of radius 0 is fedcm": (
        lambda s: naive.fedvssam(s, rho=0.0, mix_local=0.4, mix_global=1.0),
        lambda s: naive.fedcm(s, alpha=0.4),
    ),
}


def fedavg_with_the_printed_fsam(s: Setup, rho: float, lam: float) -> Outcome:
    """Friendly-SAM as it is printed: the memory is updated before it is subtracted (for sigma = 1 the same)."""
    w, models = s.w0, []
    for t, S in enumerate(s.schedule):
        w_K = {}
        for k in S:
            m: Vector | None = None

            def q(v: Vector, k: int = k) -> Vector:
                nonlocal m
                g = s.g(k, v)
                direction = g if m is None else g - (lam * m + (1 - lam) * g)
                m = g if m is None else lam * m + (1 - lam) * g
                return s.g(k, v + rho * naive.unit(direction))

            w_K[k] = naive.train_client(s, k, t, w, q)
        w = w + naive.weighted_update(s, w, w_K)
        models.append(w)
    return Outcome(s, models)


@pytest.mark.parametrize("name", METHODS_EQUAL_TO_ANOTHER)
def test_a_limit_of_a_method_is_another_method(name: str) -> None:
    a, b = METHODS_EQUAL_TO_ANOTHER[name]
    assert same(a(problem()), b(problem()), rel=1e-10)


SAME_WITH_EVERYONE: dict[str, tuple[Callable[[Setup], Outcome], Callable[[Setup], Outcome]]] = {
    "fedspeed": (lambda s: naive.fedspeed(s, server_dual="active"), naive.fedspeed),
    "fedgmt": (lambda s: naive.fedgmt(s, server_dual="active"), naive.fedgmt),
    "fedlesam": (lambda s: naive.fedlesam(s, 0.3, ascent="server"), lambda s: naive.fedlesam(s, 0.3)),
    "fedlesam-s": (lambda s: naive.fedlesam_s(s, 0.3, ascent="server"), lambda s: naive.fedlesam_s(s, 0.3)),
    "fedlesam-d": (lambda s: naive.fedlesam_d(s, 0.3, ascent="server"), lambda s: naive.fedlesam_d(s, 0.3)),
}


@pytest.mark.parametrize("name", SAME_WITH_EVERYONE)
def test_a_variant_differs_only_under_partial_participation(name: str) -> None:
    a, b = SAME_WITH_EVERYONE[name]
    everyone = problem(schedule=(EVERYONE,) * 4)
    assert same(a(everyone), b(everyone))
    assert not same(a(problem()), b(problem()), rel=1e-4)


def test_yogi_and_adam_begin_alike_from_v_0() -> None:
    first = problem(schedule=PARTIAL[:1])
    assert same(naive.fedyogi(first, v0=0.0), naive.fedadam(first, v0=0.0))
    assert not same(naive.fedyogi(problem(), v0=0.0), naive.fedadam(problem(), v0=0.0), rel=1e-4)


def test_adagrad_adds_up_the_squares() -> None:
    s = problem()
    run = naive.fedadagrad(s, server_lr=0.1, tau=0.05)
    w, total = [s.w0, *run.models], np.full_like(s.w0, 0.05**2)
    for t, S in enumerate(s.schedule):
        one = naive.fedavg(replace(s, w0=w[t], schedule=(S,), lr=s.lr * s.lr_decay**t))
        total = total + (one.vector - w[t]) ** 2
    np.testing.assert_allclose(run.server["v"], total, rtol=1e-10)


@pytest.mark.parametrize(("steps", "rho"), [(1, 0.0), (7, 0.0), (1, 0.6), (7, 0.6), (40, 0.9)])
def test_the_gradients_in_a_momentum_update_have_a_closed_form(steps: int, rho: float) -> None:
    closed = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    assert naive.gradients_in_an_update(steps, rho) == pytest.approx(closed, rel=1e-12)


def test_fednova_of_two_clients_with_unequal_steps() -> None:
    s = problem(schedule=((1, 2),), batch_size=4, local_epochs=1, weighting="samples")  # 2 steps and 1 step
    w_1, w_2 = (naive.fedavg(replace(s, schedule=((k,),))).vector - s.w0 for k in (1, 2))
    p_1, p_2 = 0.7, 0.3
    expected = (2 * p_1 + p_2) * (p_1 * w_1 / 2 + p_2 * w_2)
    np.testing.assert_allclose(naive.fednova(s).vector - s.w0, expected, rtol=1e-10)


def test_the_first_round_of_fedcm_is_fedavg_at_a_smaller_rate() -> None:
    s = problem(schedule=PARTIAL[:1], weight_decay=0.0)
    assert same(naive.fedcm(s, alpha=0.3), naive.fedavg(replace(s, lr=0.3 * s.lr)))


def test_the_first_round_of_fedspeed_with_active_duals_moves_twice() -> None:
    s = problem(schedule=PARTIAL[:1])
    once = naive.fedprox(s, SAM, mu=1 / 3).vector - s.w0
    twice = naive.fedspeed(s, 0.3, 1.0, 3.0, server_dual="active").vector - s.w0
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-10)


def everyone_one_step(rounds: int) -> tuple[Setup, Callable[[Vector], Vector]]:
    s = problem(schedule=(EVERYONE,) * rounds, local_epochs=1, weight_decay=0.0, lr_decay=1.0)
    return s, lambda w: naive.mean([s.g(k, w) for k in EVERYONE])


def test_fedacg_of_one_step_and_everyone_is_nesterov() -> None:
    s, g = everyone_one_step(5)
    w, v = s.w0, np.zeros_like(s.w0)
    for _ in range(5):
        v = 0.7 * v - s.lr * g(w + 0.7 * v)
        w = w + v
    np.testing.assert_allclose(naive.fedacg(s, lam=0.7, beta=0.0).vector, w, rtol=1e-10)


@pytest.mark.parametrize("method", [naive.mime, naive.mimelite])
def test_mime_of_one_step_and_everyone_is_centralised_momentum(method: Callable[..., Outcome]) -> None:
    s, g = everyone_one_step(5)
    w, m = s.w0, np.zeros_like(s.w0)
    for _ in range(5):
        m = 0.4 * g(w) + 0.6 * m
        w = w - s.lr * m
    np.testing.assert_allclose(method(s, beta=0.6).vector, w, rtol=1e-10)


def test_mime_without_heterogeneity_is_mimelite() -> None:
    s = problem()
    alike = replace(s, clients=[s.clients[0]] * 4)
    assert same(naive.mime(alike, beta=0.6), naive.mimelite(alike, beta=0.6), rel=1e-10)
    assert not same(naive.mime(s, beta=0.6), naive.mimelite(s, beta=0.6), rel=1e-4)


def test_a_client_seen_every_round_adds_up_its_updates_in_adabest() -> None:
    s = problem(schedule=((0,),) * 4)
    run = naive.adabest(s, beta=0.0, mu=0.3)
    np.testing.assert_allclose(run.client["h"][0], 0.3 * (s.w0 - run.vector), rtol=1e-10)
    assert run.client["last"] == [4.0, 0.0, 0.0, 0.0]


def test_adabest_forgets_by_the_number_of_rounds_missed() -> None:
    s = problem(schedule=((0,), (1,), (2,), (0,)))
    before = naive.adabest(replace(s, schedule=s.schedule[:1]), mu=0.3).client["h"][0]
    start = naive.adabest(replace(s, schedule=s.schedule[:3]), beta=0.0, mu=0.3).vector
    run = naive.adabest(s, beta=0.0, mu=0.3)
    np.testing.assert_allclose(run.client["h"][0], before / 3 + 0.3 * (start - run.vector), rtol=1e-9)


def test_the_weight_of_fedwmsam_stays_in_its_bounds_and_moves_slowly() -> None:
    ends = [naive.fedwmsam(problem(schedule=PARTIAL[:t]), 0.3, 0.5, 0.1).server["alpha"] for t in range(1, 6)]
    steps = np.diff([0.5, *ends])
    assert all(0.1 <= alpha <= 0.9 for alpha in ends)
    assert np.abs(steps).max() <= 0.1 * 0.8
    assert ends[0] == pytest.approx(0.9 * 0.5 + 0.1 * 0.1)  # there is no momentum yet to compare with


def test_wima_is_the_mean_of_the_last_models() -> None:
    run = naive.fedavg(problem(average=Wima(window=2)))
    np.testing.assert_allclose(run.eval_vector, (run.models[-1] + run.models[-2]) / 2, rtol=1e-12)
    everything = naive.fedavg(problem(average=Wima()))
    np.testing.assert_allclose(everything.eval_vector, naive.mean(everything.models), rtol=1e-12)
    np.testing.assert_array_equal(naive.fedavg(problem(average=Wima(window=1))).eval_vector, run.models[-1])


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [("none", [0.5] * 6), ("ramp", [0.1, 0.2, 0.3, 0.4, 0.5, 0.5]), ("official", [0.5, 0.4, 0.4, 0.4, 0.4, 0.5])],
)
def test_the_server_radius_of_fedgloss_warms_up(warmup: str, expected: list[float]) -> None:
    actual = [naive.server_radius(SAM, t, 0.5, 0.1, 4, warmup) for t in range(6)]
    assert actual == pytest.approx(expected)


def test_the_share_of_flags_is_of_the_window_or_of_the_rounds_so_far() -> None:
    s = problem(schedule=PARTIAL[:2])
    assert naive.fedgf(s, threshold=0.0, window=5).server["c"] == 1.0
    assert naive.fedgf(s, threshold=0.0, window=5, share_of="window").server["c"] == pytest.approx(2 / 5)
