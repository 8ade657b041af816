"""Measurements of how much the loss rises near a model."""

from __future__ import annotations

from flatfed.core.configuration.config import Count, Index, NonNegative, Positive
from flatfed.core.method.vectors import norm
from flatfed.flatness.measurement import Measurement, Reading, Subject
from flatfed.flatness.sharpness import lpf, sharpness


class LossOf(Measurement, id="loss"):
    """Loss and figures of the model itself."""

    def measure(self, subject: Subject) -> Reading:
        """Return the loss and, where there are classes, the accuracy."""
        found = subject.surface.figures()
        return Reading({name: value for name, value in found.items() if isinstance(value, float)})


class ParameterNorm(Measurement, id="parameter_norm"):
    """The norm of the model's parameters."""

    def measure(self, subject: Subject) -> Reading:
        """Return `||w||`."""
        return Reading({"parameter_norm": norm(subject.surface.w.double())})


class LowPass(Measurement, id="lpf"):
    """LPF, the mean loss under Gaussian noise on the weights: lower is flatter."""

    sigma: NonNegative = 0.01
    samples: Count = 100
    seed: Index = 0

    def measure(self, subject: Subject) -> Reading:
        """Return the mean and its standard error."""
        found = lpf(subject.surface, sigma=self.sigma, samples=self.samples, seed=self.seed)
        numbers = {"lpf": found.value, "lpf_error": found.error}
        return Reading(numbers, verdict=f"{self.samples} draws of noise {self.sigma:g}")


class SharpnessOf(Measurement, id="sharpness"):
    """The largest rise of the loss within a ball of radius rho: SAM's point, or several steps of ascent."""

    rho: Positive = 0.05
    steps: Count = 1

    def measure(self, subject: Subject) -> Reading:
        """Return the rise."""
        found = sharpness(subject.surface, self.rho, steps=self.steps)
        return Reading({"sharpness": found.rise}, verdict=f"radius {self.rho:g}, {_steps(self.steps)}")


class AdaptiveSharpness(Measurement, id="adaptive_sharpness"):
    """The largest rise of the loss within a ball of ASAM's norm, which scales with the weights."""

    rho: Positive = 0.5
    eta: NonNegative = 0.2
    steps: Count = 1

    def measure(self, subject: Subject) -> Reading:
        """Return the rise."""
        found = sharpness(subject.surface, self.rho, steps=self.steps, eta=self.eta)
        told = f"radius {self.rho:g}, eta {self.eta:g}, {_steps(self.steps)}"
        return Reading({"adaptive_sharpness": found.rise}, verdict=told)


def _steps(count: int) -> str:
    return "one step" if count == 1 else f"{count} steps"
