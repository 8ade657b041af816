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
    # In coordinates in which the ball is round: the perturbation is T * e.
    T = _scale(surface, eta)
    start = surface.loss()

    def rise(e: Tensor) -> Sharpness:
        return Sharpness(surface.loss(surface.w + T * e) - start, T * e)

    slope = unit(T * surface.gradient())
    # SAM's point is among the candidates of several steps: more steps never find less.
    best = rise(rho * slope)
    if steps == 1:
        return best
    e = torch.zeros_like(surface.w)
    length = ASCENT * rho / steps
    for step in range(steps):
        # The slope at the start is known already.
        if step > 0:
            slope = unit(T * surface.gradient(surface.w + T * e))
        e = _projected(e + length * slope, rho)
        best = max(best, rise(e), key=lambda candidate: candidate.rise)
    return best


def _scale(surface: Surface, eta: float | None) -> Tensor:
    """Return what a perturbation is measured in: `|w| + eta` on weights in ASAM's norm, 1 elsewhere."""
    if eta is None:
        return torch.ones_like(surface.w)
    is_weight = surface.layout.weight_mask()[: surface.size]
    return torch.where(is_weight, surface.w.abs() + eta, 1.0)


def _projected(e: Tensor, rho: float) -> Tensor:
    """Return the nearest perturbation of at most this length."""
    # The guard is for a perturbation of length 0.
    return e * min(1.0, rho / (norm(e) + GUARD))


@dataclass(frozen=True)
class LPF:
    """The mean loss under Gaussian noise, and its standard error."""

    value: float
    error: float


def lpf(surface: Surface, *, sigma: float = 0.01, samples: int = 100, seed: int = 0) -> LPF:
    """Return the low-pass-filtered loss: lower is flatter."""
    losses = surface.noisy_losses(sigma, samples, seed)
    return LPF(float(losses.mean()), standard_error(losses))


def standard_error(values: Tensor) -> float:
    """Return the standard error of a mean; a single value says nothing about it."""
    if len(values) < 2:
        return math.inf
    return float(values.std()) / math.sqrt(len(values))
