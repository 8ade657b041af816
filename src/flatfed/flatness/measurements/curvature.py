"""Measurements of the Hessian, and of the Gauss-Newton matrix beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from flatfed.core.configuration.checking import Count, Index, Positive
from flatfed.flatness.measurement import PRODUCTS_VERSION, Measurement, MeasurementResult, Subject
from flatfed.flatness.spectra.lanczos import Eigenvalues
from flatfed.flatness.spectra.spectrum import Mode, density, eigenvalues, trace
from flatfed.flatness.spectra.stochastic import Density


class LambdaMax(Measurement, id="lambda_max"):
    """The largest eigenvalue of the Hessian: how sharp the sharpest direction is."""

    version: ClassVar[int] = PRODUCTS_VERSION
    mode: Mode = "lanczos"
    tolerance: Positive = 0.01
    most: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the value, its residual and the products it took."""
        return _result(_eigenvalues(subject, self, k=1), self.mode)


class GaussNewton(Measurement, id="gauss_newton"):
    """The largest eigenvalue of the Gauss-Newton matrix: the Hessian without the bending of the model itself.

    `(1/n) sum_i J_i^T M_i J_i`, with `J_i` the derivative of the outputs and `M_i` the Hessian of the loss in them. For
    cross-entropy it is the Fisher matrix, and no eigenvalue is negative.
    """

    tolerance: Positive = 0.01
    most: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the value, its residual and the products it took."""
        largest = _largest(subject, self, subject.surface.gauss_newton_product, k=1)
        numbers = {
            "gauss_newton_max": float(largest.values[0]),
            "gauss_newton_residual": float(largest.residuals[0]),
            "gauss_newton_products": float(largest.products),
        }
        return MeasurementResult(numbers, remark=largest.remark)


class LambdaRatio(Measurement, id="lambda_ratio"):
    """lambda_max / lambda_5: how much sharper the sharpest direction is than the fifth."""

    version: ClassVar[int] = PRODUCTS_VERSION
    mode: Mode = "lanczos"
    tolerance: Positive = 0.01
    most: Count = 200
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return both values and their ratio."""
        return _result(_eigenvalues(subject, self, k=5), self.mode)


class SpectrumOf(Measurement, id="spectrum"):
    """The k largest eigenvalues and, with samples > 0, the density of all of them."""

    version: ClassVar[int] = PRODUCTS_VERSION
    k: Count = 50
    samples: Index = 0
    steps: Count = 60
    mode: Mode = "lanczos"
    tolerance: Positive = 0.01
    most: Count = 400
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the values with their residuals, and the density as points with weights."""
        largest = _result(_eigenvalues(subject, self, k=self.k), self.mode)
        whole = self._density(subject)
        rule = {"points": whole.points.tolist(), "weights": whole.weights.tolist()}
        return MeasurementResult(largest.numbers, series={**largest.series, **rule}, remark=largest.remark)

    def _density(self, subject: Subject) -> Density:
        if self.samples == 0:
            return Density.none()
        return density(subject.surface, self.samples, self.steps, self.seed)


class TraceOf(Measurement, id="trace"):
    """The trace of the Hessian by Hutchinson's estimate: the sum of all its eigenvalues."""

    version: ClassVar[int] = PRODUCTS_VERSION
    samples: Count = 10
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the estimate and its standard error."""
        estimate = trace(subject.surface, self.samples, self.seed)
        numbers = {"trace": estimate.value, "trace_error": estimate.error}
        return MeasurementResult(numbers, remark=f"{estimate.samples} random vectors")


def _eigenvalues(subject: Subject, measurement: LambdaMax | LambdaRatio | SpectrumOf, k: int) -> Eigenvalues:
    return _largest(subject, measurement, subject.surface.product, k, measurement.mode)


def _largest(
    subject: Subject,
    measurement: GaussNewton | LambdaMax | LambdaRatio | SpectrumOf,
    product: Callable[[Tensor], Tensor],
    k: int,
    mode: Mode = "lanczos",
) -> Eigenvalues:
    return eigenvalues(
        subject.surface,
        k,
        mode=mode,
        tolerance=measurement.tolerance,
        most=measurement.most,
        seed=measurement.seed,
        product=subject.counted(measurement.id, product, measurement.most),
    )


def _result(largest: Eigenvalues, mode: Mode) -> MeasurementResult:
    """Return the largest eigenvalues and how well they are known; of five or more, also `lambda_1 / lambda_5`."""
    values, residuals = largest.values.tolist(), largest.residuals.tolist()
    numbers = {
        "lambda_max": values[0],
        "lambda_max_residual": residuals[0],
        "lambda_products": float(largest.products),
    }
    if len(values) >= 5:
        numbers |= {"lambda_5": values[4], "lambda_ratio": _ratio(values[0], values[4])}
    series = {"eigenvalues": values, "residuals": residuals} if len(values) > 1 else {}
    return MeasurementResult(numbers, series=series, remark=_remark(largest, mode))


def _ratio(first: float, fifth: float) -> float:
    return first / fifth if fifth else math.inf


def _remark(largest: Eigenvalues, mode: Mode) -> str:
    if mode == "lanczos":
        return largest.remark
    # Power iteration stops when a value changes little, which may be far from any eigenvalue.
    return f"power iteration, {largest.products} products, not to be relied on"
