"""The Hessian's spectrum of a surface: eigenvalues by Lanczos or as the papers do, trace and density."""

from __future__ import annotations

from typing import Literal

from flatfed.flatness.spectra import stochastic
from flatfed.flatness.spectra.lanczos import Eigenvalues, Product, largest_eigenvalues
from flatfed.flatness.spectra.power import power_iteration
from flatfed.flatness.surface import Surface

Mode = Literal["lanczos", "power"]


def eigenvalues(
    surface: Surface,
    k: int = 1,
    *,
    mode: Mode = "lanczos",
    tolerance: float = 1e-3,
    most: int = 200,
    seed: int = 0,
    vectors: bool = False,
    product: Product | None = None,
) -> Eigenvalues:
    """Return the largest eigenvalues of the Hessian at a model, with residuals and a remark.

    `mode="power"` is the papers' power iteration (at most 20 steps per value, deflation), for comparison. `product` may
    stand for the surface's own, counted or watched.
    """
    of = product or surface.product
    if mode == "power":
        return power_iteration(of, surface.size, k, seed=seed, dtype=surface.w.dtype)
    return largest_eigenvalues(
        of, surface.size, k, tolerance=tolerance, most=most, seed=seed, dtype=surface.w.dtype, vectors=vectors
    )


def trace(surface: Surface, samples: int = 10, seed: int = 0) -> stochastic.Trace:
    """Return Hutchinson's estimate of the Hessian's trace."""
    return stochastic.trace(surface.product, surface.size, samples=samples, seed=seed, dtype=surface.w.dtype)


def density(surface: Surface, samples: int = 5, steps: int = 60, seed: int = 0) -> stochastic.Density:
    """Return the density of the Hessian's eigenvalues."""
    size, dtype = surface.size, surface.w.dtype
    return stochastic.density(surface.product, size, samples=samples, steps=steps, seed=seed, dtype=dtype)
