"""Sharpness and LPF on losses with a known answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flatfed.flatness.sharpness import lpf, sharpness
from flatness.problems import KINDS, UNEQUAL, Quadratic, direct, opened, quadratic, surface, with_spectrum

A = torch.diag(torch.tensor([4.0, 1.0, 0.5], dtype=torch.float64))
POINT = [1.0, -2.0, 3.0]
W = torch.tensor(POINT, dtype=torch.float64)
numbers = st.floats(-3, 3).map(lambda x: round(x, 3))


@settings(max_examples=30, deadline=None)
@given(w=st.lists(numbers, min_size=3, max_size=3), rho=st.floats(1e-3, 3))
def test_one_step_is_the_point_of_sam(w: Sequence[float], rho: float) -> None:
    actual, point = sharpness(quadratic(A, w).surface, rho), torch.tensor(w, dtype=torch.float64)
    g = A @ point
    if not g.any():
        assert actual.rise == 0 and not actual.perturbation.any()
        return
    e = rho * g / g.norm()
    torch.testing.assert_close(actual.perturbation, e)
    assert float(actual.perturbation.norm()) == pytest.approx(rho)
    assert actual.rise == pytest.approx(float(g @ e + 0.5 * e @ A @ e), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(w=st.lists(numbers, min_size=5, max_size=5), rho=st.floats(1e-3, 3), eta=st.floats(0, 1))
def test_the_adaptive_point_lies_on_the_sphere_of_asams_norm(w: Sequence[float], rho: float, eta: float) -> None:
    """`T = |w| + eta` on weights, 1 on what is not called so; `e = rho T^2 g / ||T g||`, so that `||e/T|| = rho`."""
    bent = with_spectrum(torch.tensor([4.0, 2.0, 1.0, 0.5, -1.0]).double())
    actual = sharpness(quadratic(bent, w[:3], shift=w[3:]).surface, rho, eta=eta)
    point = torch.tensor(w, dtype=torch.float64)
    T = torch.cat([point[:3].abs() + eta, torch.ones(2, dtype=torch.float64)])
    g = bent @ point
    length = float((T * g).norm())
    if length < 1e-9:
        return
    torch.testing.assert_close(actual.perturbation, rho * T * T * g / length)
    inside = T > 0
    assert float((actual.perturbation[inside] / T[inside]).norm()) == pytest.approx(rho)
    loss = Quadratic(bent)
    assert actual.rise == pytest.approx(loss.value(point + actual.perturbation) - loss.value(point), abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_rises_of_a_network(kind: str) -> None:
    lab, known = opened(kind, UNEQUAL, 4), direct(kind)
    w = lab.surface.w
    weights = lab.surface.layout.weight_mask()
    g = known.gradient(w)
    e = 0.05 * g / g.norm()
    plain = lab.measure("sharpness")["sharpness"]
    assert plain.numbers["sharpness"] == pytest.approx(float(known.loss(w + e) - known.loss(w)), rel=1e-9)
    assert plain.remark == "radius 0.05, one step"
    T = torch.where(weights, w.abs() + 0.2, 1.0)
    e = 0.5 * T * T * g / (T * g).norm()
    adaptive = lab.measure("adaptive_sharpness")["adaptive_sharpness"]
    rise = float(known.loss(w + e) - known.loss(w))
    assert adaptive.numbers["adaptive_sharpness"] == pytest.approx(rise, rel=1e-9)
    assert adaptive.remark == "radius 0.5, eta 0.2, one step"


@pytest.mark.parametrize("eta", [None, 0.2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [2, 3, 7, 20])
def test_more_steps_do_not_find_less(kind: str, steps: int, eta: float | None) -> None:
    actual = surface(kind)
    for rho in (0.01, 0.3):
        one, more = sharpness(actual, rho, eta=eta), sharpness(actual, rho, steps=steps, eta=eta)
        assert more.rise >= one.rise
        T = torch.ones_like(actual.w)
        if eta is not None:
            T = torch.where(actual.layout.weight_mask(), actual.w.abs() + eta, 1.0)
        assert float((more.perturbation / T).norm()) <= rho * (1 + 1e-9)
        assert actual.loss(actual.w + more.perturbation) - actual.loss() == pytest.approx(more.rise)


@settings(max_examples=60, deadline=None)
@given(
    w=st.lists(numbers, min_size=4, max_size=4),
    values=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    rho=st.floats(0.05, 3),
    steps=st.integers(2, 12),
    seed=st.integers(0, 20),
)
def test_nor_on_any_quadratic(w: Sequence[float], values: Sequence[float], rho: float, steps: int, seed: int) -> None:
    bent = with_spectrum(torch.tensor(values, dtype=torch.float64), seed)
    actual = quadratic(bent, w).surface
    one, more = sharpness(actual, rho), sharpness(actual, rho, steps=steps)
    assert more.rise >= one.rise - 1e-12
    assert more.rise <= highest(bent, torch.tensor(w, dtype=torch.float64), rho) + 1e-9


def test_nor_where_short_steps_turn_away() -> None:
    bent = torch.tensor(
        [[-1.53, -0.24, 0.42, -0.34], [-0.24, -1.08, 0.67, 0.1], [0.42, 0.67, -2.02, -0.34], [-0.34, 0.1, -0.34, -1.55]]
    ).double()
    actual = quadratic(bent, [-1.28, 0.09, -0.54, 0.71]).surface
    assert sharpness(actual, 1.3, steps=6).rise >= sharpness(actual, 1.3).rise


def highest(bent: Tensor, w: Tensor, rho: float) -> float:
    """Return `max over ||e|| <= rho` of the rise of 1/2 w^T A w, from `e = (l - A)^-1 A w` with `||e|| = rho`."""
    values, vectors = torch.linalg.eigh(bent)
    g = vectors.T @ (bent @ w)
    low, high = max(0.0, float(values[-1])), max(0.0, float(values[-1])) + float(g.norm()) / rho + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if float((g / (middle - values)).norm()) > rho else (low, middle)
    e = g / (high - values)
    if float(values[-1]) > 0 and float(e.norm()) < rho * (1 - 1e-6):  # the rest goes along the top eigenvector
        e[-1] += math.sqrt(max(0.0, rho**2 - float(e @ e)))
    return float(g @ e + 0.5 * (values * e) @ e)


def test_many_steps_reach_the_maximum_of_a_quadratic() -> None:
    start = [0.02, 0.3, 0.1]  # SAM's step follows the second axis, the maximum the first
    actual = quadratic(A, start).surface
    one, many = sharpness(actual, 1.0), sharpness(actual, 1.0, steps=200)
    truth = highest(A, torch.tensor(start, dtype=torch.float64), 1.0)
    assert one.rise < many.rise <= truth + 1e-9
    assert many.rise == pytest.approx(truth, rel=1e-2)
    assert float(many.perturbation.norm()) <= 1 + 1e-9


@pytest.mark.parametrize("rho", [0.01, 0.1, 1.0])
def test_the_maximum_from_an_axis_is_known(rho: float) -> None:
    """At `w = c e_1` the gradient points along the steepest axis: one step is the maximum, `4 c rho + 2 rho^2`."""
    actual = quadratic(A, [2.0, 0.0, 0.0]).surface
    for steps in (1, 30):
        assert sharpness(actual, rho, steps=steps).rise == pytest.approx(8 * rho + 2 * rho**2)


def test_on_a_plain_slope_the_rise_is_the_radius_times_the_slope() -> None:
    b = torch.tensor([3.0, 0.0, -4.0], dtype=torch.float64)
    actual = quadratic(0 * A, POINT, b).surface
    assert sharpness(actual, 0.2).rise == pytest.approx(1.0)
    torch.testing.assert_close(sharpness(actual, 0.2).perturbation, -0.2 * b / 5)


def test_without_a_slope_there_is_no_step() -> None:
    actual = sharpness(quadratic(A, [0.0, 0.0, 0.0]).surface, 0.1)
    assert actual.rise == 0 and not actual.perturbation.any()


@pytest.mark.parametrize("seed", range(4))
def test_lpf_of_a_quadratic(seed: int) -> None:
    """`L(w) + sigma^2/2 tr A`; the noise has the variance `sigma^2 ||A w||^2 + sigma^4/2 ||A||^2`."""
    sigma, lab = 0.5, quadratic(A, POINT)
    actual = lpf(lab.surface, sigma=sigma, samples=600, seed=seed)
    truth = Quadratic(A).value(W) + 0.5 * sigma**2 * float(A.trace())
    assert abs(actual.value - truth) < 4 * actual.error
    spread = sigma**2 * float((A @ W).square().sum()) + 0.5 * sigma**4 * float(A.square().sum())
    assert actual.error == pytest.approx(math.sqrt(spread / 600), rel=0.12)


def test_the_noise_is_gaussian_independent_and_keyed() -> None:
    """On a slope along one axis the loss is that coordinate of the noise."""
    draws = []
    for axis in range(2):
        b = torch.zeros(3, dtype=torch.float64)
        b[axis] = -1
        actual = quadratic(0 * A, [0.0, 0.0, 0.0], b).surface
        draws.append(actual.noisy_losses(0.1, 1000, 4))
        assert torch.equal(draws[-1][:7], actual.noisy_losses(0.1, 7, 4))
        assert not torch.equal(draws[-1][:7], actual.noisy_losses(0.1, 7, 5))
    both = torch.stack(draws)
    assert float(both.mean()) == pytest.approx(0, abs=0.009)
    assert both.std(dim=1).tolist() == pytest.approx([0.1, 0.1], rel=0.09)
    assert float(torch.corrcoef(both)[0, 1]) == pytest.approx(0, abs=0.12)
    assert float((both.abs() > 0.196).double().mean()) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_lpf_without_noise_is_the_loss(kind: str) -> None:
    actual = surface(kind, UNEQUAL, 6)
    assert lpf(actual, sigma=0.0, samples=2).value == pytest.approx(actual.loss())
    assert lpf(actual, sigma=0.0, samples=2).error == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_lpf_of_a_network_to_second_order(kind: str) -> None:
    """For little noise `LPF ~ L + sigma^2/2 tr H`, within its standard error."""
    lab, sigma = opened(kind), 0.01
    actual = lab.measure("lpf(samples=200)")["lpf"]
    w = lab.surface.w
    truth = float(direct(kind).loss(w)) + 0.5 * sigma**2 * float(direct(kind).hessian(w).trace())
    assert abs(actual.numbers["lpf"] - truth) < 4 * actual.numbers["lpf_error"]
    assert actual.remark == "200 draws of noise 0.01"


def test_the_norm_of_the_parameters() -> None:
    lab = opened("tanh")
    length = float(lab.surface.w.norm())
    assert lab.measure("parameter_norm")["parameter_norm"].numbers == {"parameter_norm": pytest.approx(length)}
