"""Sharpness and LPF on losses with a known answer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.examples import TensorExamples
from flatfed.flatness.sharpness import lpf, sharpness
from flatfed.flatness.surface import Surface
from flatness.problems import surface

A = torch.tensor([4.0, 1.0, 0.5], dtype=torch.float64)


class Point(nn.Module):
    """A model that is its parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    """1/2 sum_j A_j w_j^2, whatever the examples."""
    return 0.5 * (A * outputs**2).sum(dim=1).mean()


def quadratic() -> Surface:
    ones = torch.ones(5, 3, dtype=torch.float64)
    task = ff.Task(Point(), [(ones, ones)], loss=half_square)
    return Surface(task, [TensorExamples(ones, ones)], torch.float64, batch=2)


def test_one_step_is_the_point_of_sam() -> None:
    w = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    found, g = sharpness(quadratic(), w, 0.1), A * w
    e = 0.1 * g / g.norm()
    torch.testing.assert_close(found.perturbation, e)
    assert found.rise == pytest.approx(float(g @ e + 0.5 * (A * e) @ e))


def test_many_steps_reach_the_maximum_of_a_quadratic() -> None:
    w = torch.tensor([0.02, 0.3, 0.1], dtype=torch.float64)  # SAM's step follows the second axis, the maximum the first
    one, many = sharpness(quadratic(), w, 1.0), sharpness(quadratic(), w, 1.0, steps=200)
    # max 1/2 (w+e)^T A (w+e) on the unit sphere: e = (l - A)^-1 A w with ||e|| = 1, l above the largest entry of A
    low, high = float(A.max()) + 1e-12, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float((A * w / (middle - A)).norm()) > 1 else (low, middle)
    e = A * w / (low - A)
    truth = float(0.5 * (A * (w + e)) @ (w + e) - 0.5 * (A * w) @ w)
    assert one.rise < many.rise <= truth + 1e-9
    assert many.rise == pytest.approx(truth, rel=1e-2)
    assert float(many.perturbation.norm()) <= 1 + 1e-9


def test_the_adaptive_norm_scales_with_the_weights() -> None:
    w = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    found, T, g = sharpness(quadratic(), w, 0.1, eta=0.2), w.abs() + 0.2, A * w
    torch.testing.assert_close(found.perturbation, 0.1 * T * T * g / (T * g).norm())


def test_lpf_of_a_quadratic() -> None:
    w, sigma = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64), 0.5
    found = lpf(quadratic(), w, sigma=sigma, samples=2000)
    truth = float(0.5 * (A * w) @ w + 0.5 * sigma**2 * A.sum())
    assert abs(found.value - truth) < 4 * found.error


def test_lpf_without_noise_is_the_loss() -> None:
    found = surface("tanh", batch=6)
    w = found.oracle.w.clone()
    assert lpf(found, w, sigma=0.0, samples=2).value == pytest.approx(found.loss(w))
