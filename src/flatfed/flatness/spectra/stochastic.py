"""Trace and spectral density of a symmetric operator from random vectors, without knowing its matrix.

    trace   ~ mean over z of <z, A z>                              (Hutchinson; z a vector of random signs)
    density ~ mean over z of sum_j tau_j^2 delta(x - theta_j)      (stochastic Lanczos quadrature)

with `theta_j` the eigenvalues of T after some Lanczos steps from z, `tau_j` the first entries of its eigenvectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.randomness import torch_generator
from flatfed.flatness.sharpness import standard_error
from flatfed.flatness.spectra.lanczos import Lanczos, Product


@dataclass(frozen=True)
class Trace:
    """An estimate of the trace and its standard error."""

    value: float
    error: float
    samples: int


def trace(
    product: Product, size: int, *, samples: int = 10, seed: int = 0, dtype: torch.dtype = torch.float32
) -> Trace:
    """Return Hutchinson's estimate of the trace from `samples` products."""
    generator = torch_generator(seed, "trace")
    estimates = torch.empty(samples, dtype=torch.float64)
    for number in range(samples):
        z = signs(size, generator, dtype)
        estimates[number] = torch.dot(z.double(), product(z).double())
    return Trace(float(estimates.mean()), standard_error(estimates), samples)


@dataclass(frozen=True)
class Density:
    """A spectral density as points with weights that add up to 1: a quadrature rule of the spectrum."""

    points: Tensor
    weights: Tensor
    products: int

    @classmethod
    def none(cls) -> Density:
        """Return the density that was not asked for."""
        return cls(torch.zeros(0), torch.zeros(0), 0)

    def moment(self, power: int) -> float:
        """Return the mean of `lambda^power` over the spectrum."""
        return float((self.weights * self.points**power).sum())

    def smooth(self, at: Tensor, width: float) -> Tensor:
        """Return the density at some places, each point a Gaussian of this width."""
        z = (at.unsqueeze(1) - self.points.unsqueeze(0)) / width
        return (torch.exp(-0.5 * z**2) * self.weights).sum(dim=1) / (width * math.sqrt(2 * math.pi))


def density(
    product: Product,
    size: int,
    *,
    samples: int = 5,
    steps: int = 60,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Density:
    """Return the spectral density from `samples` Lanczos runs of `steps` products each."""
    generator = torch_generator(seed, "density")
    points: list[Tensor] = []
    weights: list[Tensor] = []
    products = 0
    for _ in range(samples):
        # Without a generator: the weights are those of z, from which another block would not start.
        lanczos = Lanczos(product, signs(size, generator, dtype), steps)
        while lanczos.step():
            pass
        thetas, s = torch.linalg.eigh(lanczos.tridiagonal.matrix)
        points.append(thetas)
        weights.append(s[0] ** 2 / samples)
        products += len(thetas)
    return Density(torch.cat(points), torch.cat(weights), products)


def signs(size: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Return a vector of random signs."""
    return torch.randint(0, 2, (size,), generator=generator).to(dtype).mul_(2).sub_(1)
