"""Intervals of a mean: against SciPy, ends by hand, and how often they hold the true mean."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from flatfed.bootstrap import bootstrap_interval, ratio_interval
from flatfed.core.errors import ConfigError


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).exponential(size=shape)


@pytest.mark.parametrize("seed", range(4))
# Few values have many means that are equal but for the last digit, which SciPy takes for different.
@pytest.mark.parametrize(("count", "share"), [(5, 0.05), (12, 0.005), (40, 0.001)])
def test_against_scipy(seed: int, count: int, share: float) -> None:
    numbers = drawn(seed, count)
    # Both draw the same numbers from the same generator.
    expected = scipy.stats.bootstrap(
        (numbers,), np.mean, method="BCa", n_resamples=5000, rng=np.random.default_rng(5)
    ).confidence_interval
    actual = bootstrap_interval(list(numbers), draws=5000, seed=5)
    assert actual is not None
    width = expected.high - expected.low
    assert actual.low == pytest.approx(expected.low, abs=share * width)
    assert actual.high == pytest.approx(expected.high, abs=share * width)


def test_two_values_are_the_ends() -> None:
    interval = bootstrap_interval([1.0, 3.0])
    assert interval is not None
    assert (interval.low, interval.high) == (1, 3)


def test_three_values_have_their_range() -> None:
    """Quantiles of samples of three would leave out a value that was seen: zero here."""
    interval = bootstrap_interval([-7.85, 0.0, -2.25])
    assert interval is not None
    assert (interval.low, interval.high) == (-7.85, 0.0)


def test_three_ratios_have_their_range() -> None:
    interval = ratio_interval([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])
    assert interval is not None
    assert (interval.low, interval.high) == (1, 2)


def test_one_value_has_no_interval() -> None:
    assert bootstrap_interval([1.0]) is None
    assert bootstrap_interval([]) is None


def test_equal_values_have_no_width() -> None:
    interval = bootstrap_interval([0.1] * 7)
    assert interval is not None
    assert interval.low == pytest.approx(0.1)
    assert interval.high == pytest.approx(0.1)


def test_the_same_draws_each_time() -> None:
    numbers = list(drawn(1, 6))
    assert bootstrap_interval(numbers) == bootstrap_interval(numbers)
    assert bootstrap_interval(numbers) != bootstrap_interval(numbers, seed=1)


def test_the_sign_of_the_values_is_the_sign_of_the_interval() -> None:
    numbers = drawn(2, 10)
    plus, minus = bootstrap_interval(list(numbers)), bootstrap_interval(list(-numbers))
    assert plus is not None and minus is not None
    assert minus.low == pytest.approx(-plus.high, rel=0.02)
    assert minus.high == pytest.approx(-plus.low, rel=0.02)


@pytest.mark.parametrize(("count", "least", "most"), [(3, 0.65, 0.8), (10, 0.87, 0.94), (30, 0.92, 0.97)])
def test_how_often_the_true_mean_is_inside(count: int, least: float, most: float) -> None:
    generator = np.random.Generator(np.random.PCG64(1))
    intervals = [bootstrap_interval(list(generator.normal(size=count)), draws=1000) for _ in range(1500)]
    inside = [interval is not None and interval.low <= 0 <= interval.high for interval in intervals]
    assert least < np.mean(inside) < most


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        bootstrap_interval([1.0, 2.0], level)
