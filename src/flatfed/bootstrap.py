"""Confidence intervals of a mean, or of a ratio of two, by the bootstrap: bias-corrected and accelerated (BCa)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from flatfed.core.errors import ConfigError

Floats = npt.NDArray[np.float64]

DRAWS = 10_000
LEVEL = 0.95
NORMAL = NormalDist()
FEW = 3
"""Up to this many values the interval is their range: a sample of them repeats nearly all, and its quantiles would
leave out values that were seen."""
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
    """Return the BCa interval of the mean, or the range of two or three values; None for one, which has no spread.

    The quantiles of the means of `draws` samples with replacement are taken where

        a(q) = Phi(z0 + (z0 + z_q) / (1 - acc (z0 + z_q)))

    with `z0` from the share of those means below the mean, and the acceleration `acc` from the jackknife. The draws
    depend on `seed` alone. Efron, Better bootstrap confidence intervals, JASA 82, 1987.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size < 2:
        _check(level)
        return None
    if numbers.size <= FEW:
        return _range(numbers, level)
    return _interval(numbers[:, None], _mean, level, draws, seed)


def ratio_interval(
    above: Sequence[float], below: Sequence[float], level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Interval | None:
    """Return the BCa interval of the ratio of two means, whose values are drawn in pairs; None for one pair.

    Of two or three pairs it is the range of their ratios.
    """
    pairs = np.stack([np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)], axis=1)
    if len(pairs) < 2:
        _check(level)
        return None
    if len(pairs) <= FEW:
        return _range(pairs[:, 0] / pairs[:, 1], level)
    return _interval(pairs, _ratio, level, draws, seed)


def _range(values: Floats, level: float) -> Interval:
    _check(level)
    return Interval(float(values.min()), float(values.max()), level)


Statistic = Callable[[Floats], Floats]
"""Takes samples x values x parts, and returns a number for each sample."""


def _mean(samples: Floats) -> Floats:
    means: Floats = samples[..., 0].mean(axis=-1)
    return means


def _ratio(samples: Floats) -> Floats:
    ratios: Floats = samples[..., 0].mean(axis=-1) / samples[..., 1].mean(axis=-1)
    return ratios


def _check(level: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"the level of an interval must be between 0 and 1, not {level:g}")


def _interval(rows: Floats, statistic: Statistic, level: float, draws: int, seed: int) -> Interval:
    """Return the BCa interval of a statistic of rows, which are drawn whole."""
    _check(level)
    estimate = float(statistic(rows[None])[0])
    if (rows == rows[0]).all():
        # Exactly: sums of many would differ in their last digits.
        return Interval(estimate, estimate, level)
    generator = np.random.Generator(np.random.PCG64(seed))
    places = generator.integers(0, len(rows), size=(draws, len(rows)))
    drawn = statistic(rows[places])
    without = statistic(np.stack([np.delete(rows, place, axis=0) for place in range(len(rows))]))
    largest = float(np.abs(drawn).max())
    bias, acceleration = _bias(drawn, estimate, largest), _acceleration(without, largest)
    tail = (1 - level) / 2
    low, high = (np.quantile(drawn, _adjusted(share, bias, acceleration)) for share in (tail, 1 - tail))
    return Interval(float(low), float(high), level)


def _bias(means: Floats, mean: float, largest: float) -> float:
    """Return z0; means equal to the sample's count half, of which few values have many."""
    near = np.abs(means - mean) <= EQUAL * largest
    below = np.count_nonzero((means < mean) & ~near)
    share = (below + np.count_nonzero(near) / 2) / means.size
    # A share of 0 or 1 would be an infinite correction.
    inner = min(max(share, 0.5 / means.size), 1 - 0.5 / means.size)
    return NORMAL.inv_cdf(inner)


def _acceleration(without: Floats, largest: float) -> float:
    """Return a sixth of the skewness of the jackknife's statistics; 0 where all are the same."""
    offsets = without.mean() - without
    squares = float((offsets**2).sum())
    if math.sqrt(squares) <= EQUAL * largest:
        return 0.0
    cubes = float((offsets**3).sum())
    return cubes / (6 * squares * math.sqrt(squares))


def _adjusted(share: float, bias: float, acceleration: float) -> float:
    """Return the share of the bootstrap means at which the end of the interval lies."""
    place = bias + NORMAL.inv_cdf(share)
    return NORMAL.cdf(bias + place / (1 - acceleration * place))
