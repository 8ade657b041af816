"""Eigenvalues, trace and density against the dense Hessian and against matrices with a known spectrum."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.methods import parse_measurement
from flatfed.flatness.measurement import MeasurementResult
from flatfed.flatness.spectra.lanczos import largest_eigenvalues
from flatfed.flatness.spectra.power import power_iteration
from flatfed.flatness.spectra.spectrum import eigenvalues
from flatfed.flatness.spectra.stochastic import density, trace
from flatness.problems import KINDS, UNEQUAL, direct, opened, quadratic, surface, with_spectrum

F64 = {"dtype": torch.float64}


@functools.cache
def spectrum(kind: str) -> Tensor:
    """Return all eigenvalues of the dense Hessian, in descending order."""
    return direct(kind).eigenvalues(surface(kind).w)


def read(kind: str, measurement: str) -> MeasurementResult:
    """Take a measurement of a network whose clients hold unequally many examples, in uneven batches."""
    (actual,) = opened(kind, UNEQUAL, 4).measure(measurement).values()
    return actual


@pytest.mark.parametrize("kind", KINDS)
def test_the_ten_largest_eigenvalues(kind: str) -> None:
    answer = eigenvalues(surface(kind, UNEQUAL, 5), 10, tolerance=1e-9)
    assert all(answer.converged), answer.remark
    torch.testing.assert_close(answer.values, spectrum(kind)[:10], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_their_vectors_are_eigenvectors(kind: str) -> None:
    actual = surface(kind, UNEQUAL, 5)
    answer = eigenvalues(actual, 4, tolerance=1e-8, vectors=True)
    hessian = direct(kind).hessian(actual.w)
    torch.testing.assert_close(answer.vectors @ answer.vectors.T, torch.eye(4).double(), rtol=0, atol=1e-9)
    for value, residual, y in zip(answer.values, answer.residuals, answer.vectors, strict=True):
        distance = float(torch.linalg.vector_norm(hessian @ y - value * y))
        assert distance <= 1e-7
        assert distance == pytest.approx(float(residual), rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_readings_of_the_spectrum(kind: str) -> None:
    actual = read(kind, "spectrum(k=10, tolerance=1e-8)")
    truth = spectrum(kind)
    assert actual.series["eigenvalues"] == pytest.approx(truth[:10].tolist(), rel=1e-6, abs=1e-9)
    assert actual.numbers["lambda_max"] == actual.series["eigenvalues"][0]
    assert actual.numbers["lambda_max_residual"] == actual.series["residuals"][0]
    assert actual.numbers["lambda_5"] == actual.series["eigenvalues"][4]
    assert actual.numbers["lambda_ratio"] == pytest.approx(float(truth[0] / truth[4]), rel=1e-6)
    assert actual.remark == f"converged after {actual.numbers['lambda_products']:.0f} products"
    assert actual.series["points"] == actual.series["weights"] == []
    assert read(kind, "lambda_ratio(tolerance=1e-8)").numbers["lambda_ratio"] == pytest.approx(
        float(truth[0] / truth[4]), rel=1e-6
    )
    assert len(read(kind, "spectrum(k=3)").series["eigenvalues"]) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_five_start_vectors_agree_within_one_per_cent(kind: str) -> None:
    """As they are taken by default; power iteration, with the budget that papers give it, stays below."""
    truth = float(spectrum(kind)[0])
    lab = opened(kind)
    lanczos, power = (
        [lab.measure(f"lambda_max(mode={mode}, seed={seed})")["lambda_max"].numbers["lambda_max"] for seed in range(5)]
        for mode in ("lanczos", "power")
    )
    assert lanczos == pytest.approx([truth] * 5, rel=0.01)
    assert max(power) <= truth * (1 + 1e-9)


NEARLY_EQUAL = torch.cat([torch.tensor([10.0, 9.0, -9.9]), torch.linspace(-3, 3, 97)]).double()
"""Two values of nearly one size, and one of opposite sign."""

HEAVY_TAILED = torch.cat([torch.tensor([100.0, 20.0, 5.0, 3.0, 2.5, 2.2]), torch.linspace(-1, 1.5, 400)]).double()
"""As the spectrum of a trained network: one large value, and a fifth that is 1/40 of it."""


@pytest.mark.parametrize("seed", range(8))
def test_what_is_called_converged_is_the_largest_value(seed: int) -> None:
    """A Ritz value with a small residual may be near another eigenvalue, as long as the largest has not emerged."""
    matrix, asked = with_spectrum(NEARLY_EQUAL), parse_measurement("lambda_max")
    actual = largest_eigenvalues(
        lambda v: matrix @ v, 100, tolerance=asked.tolerance, most=asked.most, seed=seed, **F64
    )
    assert all(actual.converged)
    assert float(actual.values[0]) == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_called_converged_holds_for_a_small_fifth_value_too(seed: int) -> None:
    matrix, asked = with_spectrum(HEAVY_TAILED), parse_measurement("lambda_ratio")
    limits = {"tolerance": asked.tolerance, "most": asked.most}
    actual = largest_eigenvalues(lambda v: matrix @ v, len(matrix), 5, **limits, seed=seed, **F64)
    assert all(actual.converged)
    assert float(actual.values[0] / actual.values[4]) == pytest.approx(40, rel=0.05)


def test_power_iteration_may_stop_far_from_an_eigenvalue() -> None:
    matrix = with_spectrum(NEARLY_EQUAL)
    actual = [float(power_iteration(lambda v: matrix @ v, 100, seed=seed, **F64).values[0]) for seed in range(5)]
    assert max(actual) - min(actual) > 1
    assert max(actual) <= 10 + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_any_start_vector_gives_the_same(seed: int) -> None:
    values = torch.cat([torch.tensor([9.0, 8.9, 5.0, -7.0]), torch.linspace(-1, 1, 60)]).double()
    matrix = with_spectrum(values)
    answer = largest_eigenvalues(lambda v: matrix @ v, 64, 3, tolerance=1e-8, seed=seed, **F64)
    torch.testing.assert_close(answer.values, torch.tensor([9.0, 8.9, 5.0]).double(), rtol=1e-7, atol=0)
    assert answer.remark.startswith("converged")


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.integers(-1000, 1000), min_size=3, max_size=30, unique=True),
    k=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_any_spectrum_of_distinct_values(values: list[int], k: int, seed: int) -> None:
    matrix = with_spectrum(torch.tensor(values).double(), seed)
    answer = largest_eigenvalues(lambda v: matrix @ v, len(values), k, tolerance=1e-9, seed=seed, **F64)
    truth = torch.tensor(sorted(values, reverse=True)[:k]).double()
    torch.testing.assert_close(answer.values, truth, rtol=1e-6, atol=1e-6 * max(map(abs, values)))
    assert answer.products <= len(values)


def test_residuals_are_real_and_a_small_budget_is_reported() -> None:
    matrix = with_spectrum(torch.linspace(0, 10, 200).double())
    answer = largest_eigenvalues(lambda v: matrix @ v, 200, 5, most=12, vectors=True, **F64)
    for value, residual, y in zip(answer.values, answer.residuals, answer.vectors, strict=True):
        assert float(torch.linalg.vector_norm(matrix @ y - value * y)) == pytest.approx(float(residual), rel=1e-6)
    assert not all(answer.converged)
    assert "of 5 converged after 12 products" in answer.remark


@pytest.mark.parametrize("tolerance", [0.1, 0.01, 1e-3, 1e-6])
def test_a_true_eigenvalue_is_at_most_a_residual_away(tolerance: float) -> None:
    values = torch.logspace(2, -3, 150).double()
    matrix = with_spectrum(values)
    answer = largest_eigenvalues(lambda v: matrix @ v, 150, 6, tolerance=tolerance, **F64)
    for value, residual in zip(answer.values, answer.residuals, strict=True):
        assert float((values - value).abs().min()) <= float(residual) + 1e-10
        assert float(residual) <= tolerance * float(answer.values[0])


@pytest.mark.parametrize("values", [[0.0] * 6, [3.0] * 6, [2.0, 2.0, 1.0, 1.0, 0.0, -5.0]])
def test_few_different_eigenvalues_end_the_recurrence(values: list[float]) -> None:
    matrix = with_spectrum(torch.tensor(values).double())
    answer = largest_eigenvalues(lambda v: matrix @ v, 6, 1, tolerance=1e-9, **F64)
    assert float(answer.values[0]) == pytest.approx(max(values), abs=1e-9)
    assert answer.products <= len(set(values)) + 1


@pytest.mark.parametrize("values", [[3.0] * 6, [2.0, 2.0, 1.0, 1.0, 0.0, -5.0], [7.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
@pytest.mark.parametrize("k", [2, 5, 6])
def test_an_eigenvalue_that_occurs_several_times_is_found_as_often(values: list[float], k: int) -> None:
    """As a Hessian of low rank has it: a class that no example has, more parameters than examples."""
    matrix = with_spectrum(torch.tensor(values).double())
    answer = largest_eigenvalues(lambda v: matrix @ v, 6, k, tolerance=1e-9, **F64)
    assert answer.values.tolist() == pytest.approx(sorted(values, reverse=True)[:k], abs=1e-8)


@pytest.mark.parametrize("measurement", ["lambda_ratio", "spectrum(k=5)", "spectrum(k=6)"])
def test_measurements_of_a_hessian_with_few_different_eigenvalues(measurement: str) -> None:
    lab = quadratic(3.0 * torch.eye(6, dtype=torch.float64), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    (actual,) = lab.measure(measurement).values()
    assert actual.numbers["lambda_max"] == pytest.approx(3)
    assert actual.numbers["lambda_ratio"] == pytest.approx(1)


def test_power_iteration_finds_a_clear_spectrum() -> None:
    values = torch.tensor([100.0, 40.0, 10.0, 1.0, 0.5, -0.1]).double()
    matrix = with_spectrum(values)
    answer = power_iteration(lambda v: matrix @ v, 6, 3, **F64)
    torch.testing.assert_close(answer.values, values[:3], rtol=1e-3, atol=0)
    assert answer.products <= 60


def test_power_iteration_finds_the_largest_in_absolute_value_first() -> None:
    matrix = with_spectrum(torch.tensor([3.0, 1.0, 0.5, 0.2, -50.0]).double())
    assert float(power_iteration(lambda v: matrix @ v, 5, 1, **F64).values[0]) == pytest.approx(-50, rel=1e-3)
    values = power_iteration(lambda v: matrix @ v, 5, 2, **F64).values
    torch.testing.assert_close(values, torch.tensor([3.0, -50.0]).double(), rtol=1e-2, atol=0)


@pytest.mark.parametrize("seed", range(3))
def test_power_iteration_stops_at_a_small_change_or_after_twenty_products(seed: int) -> None:
    matrix = with_spectrum(torch.linspace(-2, 5, 40).double())
    answer = power_iteration(lambda v: matrix @ v, 40, seed=seed, **F64)
    before = power_iteration(lambda v: matrix @ v, 40, seed=seed, steps=answer.products - 1, **F64)
    v, last = before.vectors[0], float(before.values[0])
    assert float(torch.linalg.vector_norm(v)) == pytest.approx(1)
    assert float(answer.values[0]) == pytest.approx(float(v @ matrix @ v), rel=1e-12)
    assert answer.products == 20 or abs(float(answer.values[0]) - last) < 1e-4 * (abs(last) + 1e-6)


def test_power_iteration_of_nothing_is_nothing() -> None:
    answer = power_iteration(torch.zeros_like, 7, 2, **F64)
    assert answer.values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_trace_of_the_hessian_lies_within_its_error(kind: str, seed: int) -> None:
    actual = opened(kind).measure(f"trace(samples=60, seed={seed})")["trace"].numbers
    assert abs(actual["trace"] - float(spectrum(kind).sum())) < 4 * actual["trace_error"]


def scatter(matrix: Tensor) -> float:
    """Return the variance of `<z, A z>` for random signs z: twice the sum of the squares off the diagonal."""
    return 2 * float((matrix - torch.diag(matrix.diag())).square().sum())


def test_the_standard_error_of_the_trace_is_that_of_the_estimate() -> None:
    """Over many seeds the estimates scatter as much as they say."""
    matrix = with_spectrum(torch.linspace(-1, 4, 80).double())
    actual = [trace(lambda v: matrix @ v, 80, samples=10, seed=seed, **F64) for seed in range(100)]
    truth = math.sqrt(scatter(matrix) / 10)
    assert float(torch.tensor([one.value for one in actual]).std()) == pytest.approx(truth, rel=0.25)
    assert sum(one.error for one in actual) / 100 == pytest.approx(truth, rel=0.1)


def test_the_trace_lies_within_its_error() -> None:
    matrix = with_spectrum(torch.linspace(-1, 4, 80).double())
    actual = trace(lambda v: matrix @ v, 80, samples=200, **F64)
    assert abs(actual.value - float(matrix.trace())) < 4 * actual.error
    assert trace(lambda v: 2 * v, 9, samples=3, **F64).value == pytest.approx(18)


@pytest.mark.parametrize("kind", KINDS)
def test_the_moments_of_the_hessians_density(kind: str) -> None:
    actual = opened(kind).measure("spectrum(k=1, samples=40, steps=15)")["spectrum"].series
    points, weights = (torch.tensor(actual[name], dtype=torch.float64) for name in ("points", "weights"))
    truth = spectrum(kind)
    assert float(weights.sum()) == pytest.approx(1)
    assert float(weights.min()) >= 0
    assert float(points.max()) <= float(truth[0]) * (1 + 1e-9)
    assert float(points.min()) >= float(truth[-1]) - 1e-9 * float(truth[0])
    hessian = direct(kind).hessian(surface(kind).w)
    for power in (1, 2, 3):
        matrix = torch.linalg.matrix_power(hessian, power) / len(hessian)
        error = math.sqrt(scatter(matrix) / 40)
        assert abs(float((weights * points**power).sum()) - float((truth**power).mean())) < 4 * error


def test_the_moments_of_the_density() -> None:
    values = torch.linspace(-1, 4, 80).double()
    matrix = with_spectrum(values)
    actual = density(lambda v: matrix @ v, 80, samples=60, steps=30, **F64)
    assert actual.moment(0) == pytest.approx(1)
    for power in (1, 2, 3):
        truth = float((values**power).mean())
        assert actual.moment(power) == pytest.approx(truth, rel=0.1)
    at = torch.linspace(-3, 6, 500).double()
    assert float(torch.trapezoid(actual.smooth(at, 0.2), at)) == pytest.approx(1, abs=1e-3)


def test_the_density_of_a_vector_is_exact_up_to_twice_the_steps() -> None:
    """Gauss quadrature: with m steps the moments of one vector are right up to the power 2 m - 1."""
    matrix, m = with_spectrum(torch.linspace(-1, 2, 50).double()), 6
    asked: list[Tensor] = []

    def product(v: Tensor) -> Tensor:
        asked.append(v)
        return matrix @ v

    actual = density(product, 50, samples=1, steps=m, **F64)
    z, power = asked[0].clone(), asked[0].clone()
    for order in range(2 * m):
        assert actual.moment(order) == pytest.approx(float(z @ power), rel=1e-9, abs=1e-12), order
        power = matrix @ power


def test_more_values_than_parameters() -> None:
    with pytest.raises(ConfigError, match="k must be between 1 and the 3 parameters"):
        largest_eigenvalues(lambda v: v, 3, 4)


@pytest.mark.parametrize("mode", ["lanczos", "power"])
@pytest.mark.parametrize("measurement", ["spectrum(k=52, mode={})", "spectrum(mode={}, k=60)"])
def test_measurements_of_more_values_than_parameters(measurement: str, mode: str) -> None:
    with pytest.raises(ConfigError, match="k must be between 1 and the 51 parameters"):
        opened("tanh").measure(measurement.format(mode))


@pytest.mark.parametrize("mode", ["lanczos", "power"])
def test_a_ratio_needs_five_parameters(mode: str) -> None:
    lab = quadratic(torch.eye(3, dtype=torch.float64), [1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match="3 parameters"):
        lab.measure(f"lambda_ratio(mode={mode})")


def test_a_loss_that_overflows_is_reported() -> None:
    lab = ff.laboratory(surface("tanh").task)
    with pytest.raises(ConfigError, match="not finite"):
        eigenvalues(lab.surface, product=lambda v: v * float("inf"))
