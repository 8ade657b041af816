"""How much the loss rises near a model.

    sharpness(w) = max_{||e|| <= rho} L(w + e) - L(w)
    adaptive:      max_{||e/T|| <= rho} ..., T = |w| + eta on weights and 1 elsewhere (ASAM's norm)
    LPF(w) = mean over tau ~ N(0, sigma^2 I) of L(w + tau)

The maximum is approached from below: by SAM's one step along the gradient, or by several steps of projected ascent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from flatfed.core.method.vectors import GUARD, norm, unit
from flatfed.flatness.surface import Surface

ASCENT = 5.0
"""Several steps of ascent go this multiple of the radius in all, so that they can turn along the sphere."""


@dataclass(frozen=True)
class Sharpness:
    """The rise of the loss, and the perturbation that it was found at."""

    rise: float
    perturbation: Tensor


def sharpness(surface: Surface, rho: float, *, steps: int = 1, eta: float | None = None) -> Sharpness:
    """Return the largest rise that was found within the radius `rho`.

    Args:
        surface: the loss around a model.
        rho: the radius.
        steps: 1 is SAM's point; more are projected ascent.
        eta: ASAM's norm with this `eta` instead of the Euclidean one.
    """
    w, is_weight = surface.w, surface.layout.weight_mask()[: surface.size]
    T = torch.ones_like(w) if eta is None else torch.where(is_weight, w.abs() + eta, 1.0)
    start = surface.loss()

    def rise(e: Tensor) -> Sharpness:
        return Sharpness(surface.loss(w + T * e) - start, T * e)

    # In coordinates in which the ball is round: the perturbation is T * e.
    slope = unit(T * surface.gradient())
    best = rise(rho * slope)
    e, length = torch.zeros_like(w), ASCENT * rho / steps
    for step in range(steps if steps > 1 else 0):
        e = e + length * (slope if step == 0 else unit(T * surface.gradient(w + T * e)))
        e = e * min(1.0, rho / (norm(e) + GUARD))
        best = max(best, rise(e), key=lambda found: found.rise)
    return best


@dataclass(frozen=True)
class LPF:
    """The mean loss under Gaussian noise, and its standard error."""

    value: float
    error: float


def lpf(surface: Surface, *, sigma: float = 0.01, samples: int = 100, seed: int = 0) -> LPF:
    """Return the low-pass-filtered loss: lower is flatter."""
    losses = surface.noisy_losses(sigma, samples, seed)
    error = float(losses.std()) / math.sqrt(samples) if samples > 1 else math.inf
    return LPF(float(losses.mean()), error)
