"""Changes of signs: counted by hand, against SciPy, and at most 5 % false positives under the null hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from flatfed.reports.statistics.permutation import (
    MOST_EXACT,
    pairs_needed,
    sign_flip_test,
    signed_rank_test,
    smallest_p,
)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).normal(size=shape)


def test_three_pairs_by_hand() -> None:
    # Sums of ±1 ±2 ±3: ±6, ±4, ±2, 0, 0; as it is: 1 + 2 - 3 = 0, 3 - 1 - 2 = 0, 1 + 3 - 2 = 2.
    assert sign_flip_test([1, 2, 3]).p == 2 / 8
    assert sign_flip_test([1, -2, 3]).p == 6 / 8
    assert sign_flip_test([1, 2, -3]).p == 1
    assert sign_flip_test([-1, -2, -3]).p == 2 / 8


def test_sums_that_differ_in_the_last_digit_are_equal() -> None:
    # 0.1 + 0.2 - 0.3 is not 0 in floating point.
    assert sign_flip_test([0.1, 0.2, -0.3]).p == 1
    assert sign_flip_test([0.3, 0.1, 0.2]).p == 2 / 8


def test_differences_of_nothing_change_nothing() -> None:
    assert sign_flip_test([0, 1, 0, 2, 3]).p == sign_flip_test([1, 2, 3]).p
    assert signed_rank_test([0.1 + 0.2 - 0.3, 1, 2, 3]).p == signed_rank_test([1, 2, 3]).p
    assert sign_flip_test([0, 0]).p == 1
    assert sign_flip_test([]).p == 1
    assert signed_rank_test([0.0, 0.0]).p == 1


@pytest.mark.parametrize("pairs", [1, 2, 5, 6, 10, MOST_EXACT])
def test_the_smallest_p_is_reached_and_no_smaller(pairs: int) -> None:
    numbers = list(np.abs(drawn(pairs, pairs)))
    assert sign_flip_test(numbers).p == smallest_p(pairs) == 2 / 2**pairs
    assert signed_rank_test(numbers).p == smallest_p(pairs)


def test_five_per_cent_need_six_pairs() -> None:
    assert smallest_p(5) > 0.05 > smallest_p(6)
    assert pairs_needed() == 6
    assert pairs_needed(12) == 9
    assert 12 * smallest_p(8) > 0.05 >= 12 * smallest_p(9)
    assert smallest_p(0) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_against_scipy(seed: int) -> None:
    numbers = drawn(seed, 9) + 0.4
    expected = scipy.stats.permutation_test(
        (numbers,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip_test(list(numbers)).p == pytest.approx(expected.pvalue, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pairs", [4, 9, 15])
def test_signed_ranks_against_scipy(seed: int, pairs: int) -> None:
    numbers = drawn(seed, pairs) + 0.3
    expected = scipy.stats.wilcoxon(numbers, method="exact")
    assert signed_rank_test(list(numbers)).p == pytest.approx(expected.pvalue, abs=1e-12)


def test_signed_ranks_with_ties_by_hand() -> None:
    # Ranks 1.5, 1.5, 3; signed -1.5 + 1.5 + 3 = 3. Sums: ±6, ±3 (twice each), 0, 0.
    assert signed_rank_test([0.3 - 0.2, 0.1 - 0.2, 0.9]).p == 6 / 8


def test_many_pairs_are_drawn_and_come_near_the_exact() -> None:
    numbers = drawn(3, 24) + 0.35
    outcome = sign_flip_test(list(numbers))
    assert not outcome.is_exact
    assert outcome == sign_flip_test(list(numbers))
    assert outcome.p != sign_flip_test(list(numbers), seed=1).p
    expected = scipy.stats.permutation_test(
        (numbers,), np.mean, permutation_type="samples", n_resamples=99_999, rng=np.random.default_rng(8)
    )
    assert outcome.p == pytest.approx(expected.pvalue, abs=0.005)
    ranks = signed_rank_test(list(numbers))
    assert ranks.p == pytest.approx(scipy.stats.wilcoxon(numbers, method="exact").pvalue, abs=0.005)


def test_drawn_p_values_are_never_zero() -> None:
    assert sign_flip_test([1.0 + n / 100 for n in range(60)]).p == 1 / 100_000


@pytest.mark.parametrize("test", [sign_flip_test, signed_rank_test])
def test_at_most_five_per_cent_of_null_samples_are_significant(test: object) -> None:
    assert callable(test)
    count = 2000
    p_values = [test(list(row)).p for row in drawn(11, count, 8)]
    most = scipy.stats.binom.ppf(0.999, count, 0.05)
    assert sum(p <= 0.05 for p in p_values) <= most
    # And not because nothing is ever found.
    assert sum(test(list(row + 1.5)).p <= 0.05 for row in drawn(12, 200, 8)) > 150
