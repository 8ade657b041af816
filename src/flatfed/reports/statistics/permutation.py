"""Tests that paired differences are symmetric about 0, by changing their signs: of the mean, and of signed ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flatfed.reports.statistics.ranks import average_ranks

Floats = npt.NDArray[np.float64]

MOST_EXACT = 16
"""Pairs up to which all 2^n changes of signs are counted."""
DRAWS = 99_999
"""Changes of signs that are drawn for more pairs."""
CHUNK = 8192
EQUAL = 1e-9
"""Share of the sum of sizes up to which two sums are taken for equal: they differ in their last digits."""


@dataclass(frozen=True)
class SignFlips:
    """The outcome of a test.

    Attributes:
        p: two-sided.
        is_exact: whether all changes of signs were counted.
    """

    p: float
    is_exact: bool


def sign_flip_test(differences: Sequence[float], seed: int = 0) -> SignFlips:
    """Test the mean: how often it is as large as it is, or larger, when each difference may have either sign.

    All 2^n signs are counted up to 16 pairs. For more, 99,999 are drawn, which depend on `seed` alone, and
    p = (1 + as large) / (1 + drawn), so that it is never 0. Fisher, The design of experiments, 1935; Phipson and
    Smyth, Permutation p-values should never be zero, 2010.
    """
    # A difference of 0 has no sign: it doubles what is counted, and changes no share.
    return _flipped(_not_zero(differences), seed)


def signed_rank_test(differences: Sequence[float], seed: int = 0) -> SignFlips:
    """Wilcoxon's test: the same of ranks of the sizes, which one large difference cannot decide.

    Differences of 0 are left out; equal sizes share the mean of their ranks. The distribution is counted, with equal
    sizes too, not approximated. Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1, 1945.
    """
    numbers = _not_zero(differences)
    ranks = np.asarray(average_ranks(_rounded(np.abs(numbers))), dtype=np.float64)
    return _flipped(np.sign(numbers) * ranks, seed)


def _not_zero(differences: Sequence[float]) -> Floats:
    """Return the differences that are not 0, nor so small beside the others that they are of rounding."""
    numbers = np.asarray(differences, dtype=np.float64)
    sizes = np.abs(numbers)
    large: Floats = numbers[sizes > EQUAL * sizes.max(initial=0.0)]
    return large


def _rounded(sizes: Floats) -> list[float]:
    """Return sizes so that those which differ in their last digits only are equal: 0.3 - 0.2 and 0.2 - 0.1."""
    unit = EQUAL * sizes.max(initial=0.0)
    return [float(round(size / unit)) for size in sizes]


def smallest_p(pairs: int) -> float:
    """Return the smallest two-sided p that the exact test can have with these pairs: 2 / 2^n."""
    if pairs == 0:
        return 1.0
    return 2.0 / 2.0**pairs


def pairs_needed(comparisons: int = 1, alpha: float = 0.05) -> int:
    """Return with how many pairs the exact test can come below `alpha`, after Holm over the comparisons."""
    return math.ceil(math.log2(2 * max(comparisons, 1) / alpha))


def _flipped(numbers: Floats, seed: int) -> SignFlips:
    if numbers.size == 0:
        return SignFlips(1.0, is_exact=True)
    if numbers.size <= MOST_EXACT:
        count = sum(_as_large(numbers, signs) for signs in _all_signs(numbers.size))
        return SignFlips(count / 2**numbers.size, is_exact=True)
    count = sum(_as_large(numbers, signs) for signs in _drawn_signs(numbers.size, seed))
    return SignFlips((1 + count) / (1 + DRAWS), is_exact=False)


def _as_large(numbers: Floats, signs: Floats) -> int:
    """Count the sums that are as far from 0 as the one with the signs as they are."""
    sizes = np.abs(numbers)
    limit = abs(numbers.sum()) - EQUAL * sizes.sum()
    return int(np.count_nonzero(np.abs(signs @ sizes) >= limit))


def _all_signs(pairs: int) -> Iterator[Floats]:
    """Yield all changes of signs, some thousand at a time."""
    bits = np.arange(pairs)
    for first in range(0, 2**pairs, CHUNK):
        numbers = np.arange(first, min(first + CHUNK, 2**pairs))
        yield _signs(numbers[:, None] >> bits & 1)


def _drawn_signs(pairs: int, seed: int) -> Iterator[Floats]:
    generator = np.random.Generator(np.random.PCG64(seed))
    for first in range(0, DRAWS, CHUNK):
        rows = min(CHUNK, DRAWS - first)
        yield _signs(generator.integers(0, 2, size=(rows, pairs)))


def _signs(bits: npt.NDArray[np.int64]) -> Floats:
    return 1.0 - 2.0 * bits.astype(np.float64)
