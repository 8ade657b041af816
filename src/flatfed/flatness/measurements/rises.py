"""Measurements of how much the loss rises near a model."""

from __future__ import annotations

from flatfed.core.configuration.checking import Count, Index, NonNegative, Positive
from flatfed.core.method.vectors import norm
from flatfed.flatness.measurement import Measurement, MeasurementResult, Subject
from flatfed.flatness.sharpness import lpf, sharpness


class LossOf(Measurement, id="loss"):
    """Loss and metrics of the model itself."""

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the loss and, where there are classes, the accuracy."""
        metrics = subject.surface.metrics()
        return MeasurementResult({name: value for name, value in metrics.items() if isinstance(value, float)})


class ParameterNorm(Measurement, id="parameter_norm"):
    """The norm of the model's parameters."""

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return `||w||`."""
        return MeasurementResult({"parameter_norm": norm(subject.surface.w.double())})


class LowPass(Measurement, id="lpf"):
    """LPF, the mean loss under Gaussian noise on the weights: lower is flatter."""

    sigma: NonNegative = 0.01
    samples: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the mean and its standard error."""
        estimate = lpf(subject.surface, sigma=self.sigma, samples=self.samples, seed=self.seed)
        numbers = {"lpf": estimate.value, "lpf_error": estimate.error}
        return MeasurementResult(numbers, remark=f"{self.samples} draws of noise {self.sigma:g}")


class SharpnessOf(Measurement, id="sharpness"):
    """The largest rise of the loss within a ball of radius rho: SAM's point, or several steps of ascent."""

    rho: Positive = 0.05
    steps: Count = 1

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the rise."""
        rise = sharpness(subject.surface, self.rho, steps=self.steps).rise
        return MeasurementResult({"sharpness": rise}, remark=f"radius {self.rho:g}, {count_steps(self.steps)}")


class AdaptiveSharpness(Measurement, id="adaptive_sharpness"):
    """The largest rise of the loss within a ball of ASAM's norm, which scales with the weights."""

    rho: Positive = 0.5
    eta: NonNegative = 0.2
    steps: Count = 1

    def measure(self, subject: Subject) -> MeasurementResult:
        """Return the rise."""
        rise = sharpness(subject.surface, self.rho, steps=self.steps, eta=self.eta).rise
        remark = f"radius {self.rho:g}, eta {self.eta:g}, {count_steps(self.steps)}"
        return MeasurementResult({"adaptive_sharpness": rise}, remark=remark)


def count_steps(count: int) -> str:
    """Return a number of steps of ascent in words."""
    return "one step" if count == 1 else f"{count} steps"
