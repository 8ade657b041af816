"""Eigenvalues, trace and density against the dense Hessian and against matrices with a known spectrum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.flatness.lanczos import largest_eigenvalues
from flatfed.flatness.power import power_iteration
from flatfed.flatness.stochastic import density, trace
from flatness.problems import KINDS, dense_hessian, surface

F64 = {"dtype": torch.float64}
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def with_spectrum(values: Tensor, seed: int = 0) -> Tensor:
    """Return a symmetric matrix with these eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=torch.float64))
    return q @ torch.diag(values) @ q.T


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("batch", "parts"), [(512, 1), (5, 1), (7, 3)])
def test_products_are_those_of_the_dense_hessian(kind: str, batch: int, parts: int) -> None:
    found = surface(kind, batch, parts)
    w = found.oracle.w.clone()
    v = torch.randn(found.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(found.product(w, v), dense_hessian(kind, w) @ v, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_slopes_of_the_loss(kind: str) -> None:
    found = surface(kind, batch=6)
    w, step = found.oracle.w.clone(), 1e-6
    v = torch.randn(found.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    slope = (found.loss(w + step * v) - found.loss(w - step * v)) / (2 * step)
    assert slope == pytest.approx(float(found.gradient(w) @ v), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ten_largest_eigenvalues(kind: str) -> None:
    found = surface(kind)
    w = found.oracle.w.clone()
    truth = torch.linalg.eigvalsh(dense_hessian(kind, w)).flip(0)[:10]
    answer = largest_eigenvalues(lambda v: found.product(w, v), found.size, 10, tolerance=1e-9, **F64)
    assert all(answer.converged), answer.verdict
    torch.testing.assert_close(answer.values, truth, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_any_start_vector_gives_the_same(seed: int) -> None:
    values = torch.cat([torch.tensor([9.0, 8.9, 5.0, -7.0]), torch.linspace(-1, 1, 60)]).double()
    matrix = with_spectrum(values)
    answer = largest_eigenvalues(lambda v: matrix @ v, 64, 3, tolerance=1e-8, seed=seed, **F64)
    torch.testing.assert_close(answer.values, torch.tensor([9.0, 8.9, 5.0]).double(), rtol=1e-7, atol=0)
    assert answer.verdict.startswith("converged")


def test_residuals_are_real_and_a_small_budget_is_told() -> None:
    matrix = with_spectrum(torch.linspace(0, 10, 200).double())
    answer = largest_eigenvalues(lambda v: matrix @ v, 200, 5, most=12, vectors=True, **F64)
    for value, residual, y in zip(answer.values, answer.residuals, answer.vectors, strict=True):
        assert float(torch.linalg.vector_norm(matrix @ y - value * y)) == pytest.approx(float(residual), rel=1e-6)
    assert not all(answer.converged)
    assert "of 5 converged after 12 products" in answer.verdict


@pytest.mark.parametrize("values", [[0.0] * 6, [3.0] * 6, [2.0, 2.0, 1.0, 1.0, 0.0, -5.0]])
def test_few_different_eigenvalues_end_the_recurrence(values: list[float]) -> None:
    matrix = with_spectrum(torch.tensor(values).double())
    answer = largest_eigenvalues(lambda v: matrix @ v, 6, 1, tolerance=1e-9, **F64)
    assert float(answer.values[0]) == pytest.approx(max(values), abs=1e-9)
    assert answer.products <= len(set(values)) + 1


def test_power_iteration_finds_a_clear_spectrum() -> None:
    values = torch.tensor([100.0, 40.0, 10.0, 1.0, 0.5, -0.1]).double()
    matrix = with_spectrum(values)
    answer = power_iteration(lambda v: matrix @ v, 6, 3, **F64)
    torch.testing.assert_close(answer.values, values[:3], rtol=1e-3, atol=0)
    assert answer.products <= 60


def test_power_iteration_of_nothing_is_nothing() -> None:
    answer = power_iteration(torch.zeros_like, 7, 2, **F64)
    assert answer.values.tolist() == [0.0, 0.0]


def test_the_trace_lies_within_its_error() -> None:
    matrix = with_spectrum(torch.linspace(-1, 4, 80).double())
    found = trace(lambda v: matrix @ v, 80, samples=200, **F64)
    assert abs(found.value - float(matrix.trace())) < 4 * found.error
    assert trace(lambda v: 2 * v, 9, samples=3, **F64).value == pytest.approx(18)


def test_the_moments_of_the_density() -> None:
    values = torch.linspace(-1, 4, 80).double()
    matrix = with_spectrum(values)
    found = density(lambda v: matrix @ v, 80, samples=60, steps=30, **F64)
    assert found.moment(0) == pytest.approx(1)
    for power in (1, 2, 3):
        truth = float((values**power).mean())
        assert found.moment(power) == pytest.approx(truth, rel=0.1)
    at = torch.linspace(-3, 6, 500).double()
    assert float(torch.trapezoid(found.smooth(at, 0.2), at)) == pytest.approx(1, abs=1e-3)


def test_more_values_than_parameters() -> None:
    with pytest.raises(ConfigError, match="k must be between 1 and the 3 parameters"):
        largest_eigenvalues(lambda v: v, 3, 4)
