"""Measurements of the Hessian."""

from __future__ import annotations

from typing import Annotated

from flatfed.core.configuration.config import Count, Index, Positive, Range
from flatfed.flatness.measurement import Measurement, Reading, Subject
from flatfed.flatness.spectra.spectrum import Mode, density, eigenvalues, trace
from flatfed.flatness.spectra.stochastic import Density

Several = Annotated[int, Range(low=5)]


class LambdaMax(Measurement, id="lambda_max"):
    """The largest eigenvalue of the Hessian: how sharp the sharpest direction is."""

    mode: Mode = "lanczos"
    tolerance: Positive = 0.01
    most: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the value, its residual and the products it took."""
        return _read(subject, "lambda_max", 1, self.mode, self.tolerance, self.most, self.seed)


class LambdaRatio(Measurement, id="lambda_ratio"):
    """lambda_max / lambda_5: how much sharper the sharpest direction is than the fifth."""

    mode: Mode = "lanczos"
    tolerance: Positive = 0.01
    most: Count = 200
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return both values and their ratio."""
        return _read(subject, "lambda_ratio", 5, self.mode, self.tolerance, self.most, self.seed)


class SpectrumOf(Measurement, id="spectrum"):
    """The k largest eigenvalues and, with samples > 0, the density of all of them."""

    k: Count = 50
    samples: Index = 0
    steps: Count = 60
    mode: Mode = "lanczos"
    tolerance: Positive = 0.01
    most: Count = 400
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the values with their residuals, and the density as points with weights."""
        found = _read(subject, "spectrum", self.k, self.mode, self.tolerance, self.most, self.seed)
        empty = Density.none()
        spread = density(subject.surface, self.samples, self.steps, self.seed) if self.samples else empty
        more = {"points": spread.points.tolist(), "weights": spread.weights.tolist()}
        return Reading(found.numbers, series={**found.series, **more}, verdict=found.verdict)


class TraceOf(Measurement, id="trace"):
    """The trace of the Hessian by Hutchinson's estimate: the sum of all its eigenvalues."""

    samples: Count = 10
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the estimate and its standard error."""
        found = trace(subject.surface, self.samples, self.seed)
        return Reading({"trace": found.value, "trace_error": found.error}, verdict=f"{found.samples} random vectors")


def _read(subject: Subject, name: str, k: int, mode: Mode, tolerance: float, most: int, seed: int) -> Reading:
    surface = subject.surface
    product = subject.counted(name, surface.product)
    found = eigenvalues(surface, k, mode=mode, tolerance=tolerance, most=most, seed=seed, product=product)
    values, residuals = found.values.tolist(), found.residuals.tolist()
    numbers = {"lambda_max": values[0], "lambda_max_residual": residuals[0], "lambda_products": float(found.products)}
    if k >= 5:
        numbers |= {"lambda_5": values[4], "lambda_ratio": values[0] / values[4] if values[4] else float("inf")}
    series = {"eigenvalues": values, "residuals": residuals} if k > 1 else {}
    told = found.verdict if mode == "lanczos" else f"power iteration, {found.products} products, not to be relied on"
    return Reading(numbers, series=series, verdict=told)
