"""Confidence intervals of a mean by the bootstrap: bias-corrected and accelerated (BCa)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError

Floats = npt.NDArray[np.float64]

DRAWS = 10_000
LEVEL = 0.95
NORMAL = NormalDist()
EQUAL = 1e-9
"""Share of the largest value up to which two numbers are taken for the same: sums differ in their last digits."""


@dataclass(frozen=True)
class Interval:
    """Ends of a confidence interval, and how often such intervals hold the true mean, at best."""

    low: float
    high: float
    level: float = LEVEL


def bootstrap_interval(
    values: Sequence[float], level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval | None:
    """Return the BCa interval of the mean; None for fewer than two values, which have no spread.

    The quantiles of the means of `draws` samples with replacement are taken where

        a(q) = Phi(z0 + (z0 + z_q) / (1 - acc (z0 + z_q)))

    with `z0` from the share of those means below the mean, and the acceleration `acc` from the jackknife. The draws
    depend on `seed` alone. Efron, Better bootstrap confidence intervals, JASA 82, 1987.
    """
    if not 0 < level < 1:
        raise ConfigError(f"the level of an interval must be between 0 and 1, not {level:g}")
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size < 2:
        return None
    means = _resampled_means(numbers, draws, seed)
    bias = _bias(means, float(numbers.mean()), float(np.abs(numbers).max()))
    acceleration = _acceleration(numbers)
    tail = (1 - level) / 2
    low, high = (np.quantile(means, _adjusted(share, bias, acceleration)) for share in (tail, 1 - tail))
    return Interval(float(low), float(high), level)


def _resampled_means(numbers: Floats, draws: int, seed: int) -> Floats:
    generator = np.random.Generator(np.random.PCG64(seed))
    places = generator.integers(0, numbers.size, size=(draws, numbers.size))
    means: Floats = numbers[places].mean(axis=1)
    return means


def _bias(means: Floats, mean: float, largest: float) -> float:
    """Return z0; means equal to the sample's count half, of which few values have many."""
    near = np.abs(means - mean) <= EQUAL * largest
    below = np.count_nonzero((means < mean) & ~near)
    share = (below + np.count_nonzero(near) / 2) / means.size
    # A share of 0 or 1 would be an infinite correction.
    inner = min(max(share, 0.5 / means.size), 1 - 0.5 / means.size)
    return NORMAL.inv_cdf(inner)


def _acceleration(numbers: Floats) -> float:
    """Return a sixth of the skewness of the jackknife's means; 0 where all are the same."""
    without = (numbers.sum() - numbers) / (numbers.size - 1)
    offsets = without.mean() - without
    squares = float((offsets**2).sum())
    if math.sqrt(squares) <= EQUAL * float(np.abs(numbers).max()):
        return 0.0
    cubes = float((offsets**3).sum())
    return cubes / (6 * squares * math.sqrt(squares))


def _adjusted(share: float, bias: float, acceleration: float) -> float:
    """Return the share of the bootstrap means at which the end of the interval lies."""
    place = bias + NORMAL.inv_cdf(share)
    return NORMAL.cdf(bias + place / (1 - acceleration * place))
