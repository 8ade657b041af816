"""Methods ranked in each of several settings: mean ranks, Friedman's test, Nemenyi's critical difference."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError

ALPHA = 0.05
FEW = 10
"""Settings below which the distribution of Friedman's statistic is only roughly chi-squared."""


@dataclass(frozen=True)
class Friedman:
    """Friedman's statistic, corrected for ties, and its p from the chi-squared distribution with k - 1 degrees."""

    statistic: float
    p: float


@dataclass(frozen=True)
class Ranking:
    """Methods over settings.

    Attributes:
        mean_ranks: by method; 1 is the best.
        settings: those that count.
        left_out: settings in which a method has no value yet.
        friedman: whether there are any differences at all; None for fewer than two settings or methods.
        critical_difference: Nemenyi's: mean ranks that are closer are not significantly different.
        remark: a sentence on what the numbers cannot say; empty where there is none.
    """

    mean_ranks: Mapping[str, float]
    settings: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    friedman: Friedman | None = None
    critical_difference: float | None = None
    remark: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {
            "mean_ranks": dict(self.mean_ranks),
            "settings": list(self.settings),
            "left_out": list(self.left_out),
            "friedman_statistic": self.friedman and self.friedman.statistic,
            "friedman_p": self.friedman and self.friedman.p,
            "critical_difference": self.critical_difference,
            "alpha": ALPHA,
            "remark": self.remark,
        }


def average_ranks(values: Sequence[float]) -> list[float]:
    """Return the ranks of numbers, the smallest 1; equal numbers share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2 + 1
        first = last + 1
    return ranks


def rank_methods(scores: Mapping[str, Mapping[str, float | None]], higher_is_better: Mapping[str, bool]) -> Ranking:
    """Rank methods by their scores: setting, method, value.

    A value that is not finite is that of a run that diverged, and ranks last. A setting in which some method has no
    value (None) is left out, because ranks among fewer methods cannot be compared. Demsar, Statistical comparisons of
    classifiers over multiple data sets, JMLR 7, 2006.
    """
    complete = {name: row for name, row in scores.items() if None not in row.values()}
    left_out = tuple(name for name in scores if name not in complete)
    methods = list(next(iter(scores.values()), {}))
    rows = [_ranks_of(methods, row, higher_is_better[name]) for name, row in complete.items()]
    means = {method: math.fsum(row[place] for row in rows) / len(rows) for place, method in enumerate(methods) if rows}
    if len(rows) < 2 or len(methods) < 2:
        remark = "Ranks need at least two settings in which at least two methods have values."
        return Ranking(means, tuple(complete), left_out, remark=remark)
    difference = critical_difference(len(methods), len(rows))
    return Ranking(means, tuple(complete), left_out, friedman(rows), difference, _remark(len(rows)))


def _ranks_of(methods: Sequence[str], row: Mapping[str, float | None], higher: bool) -> list[float]:
    return average_ranks([_badness(row[method], higher) for method in methods])


def _badness(value: float | None, higher: bool) -> float:
    """Return a number that is the smaller the better."""
    if value is None or not math.isfinite(value):
        return math.inf
    return -value if higher else value


def _remark(settings: int) -> str:
    if settings >= FEW:
        return ""
    return (
        f"With {settings} settings, which should also be independent of each other, Friedman's p is a rough "
        f"approximation; from {FEW} on it is a good one."
    )


def friedman(rows: Sequence[Sequence[float]]) -> Friedman:
    """Test whether any of k methods differ, from their ranks in n settings (rows).

        chi2 = (12 / (n k (k + 1)) sum_j R_j^2 - 3 n (k + 1)) / (1 - sum_ties (t^3 - t) / (n k (k^2 - 1)))

    with `R_j` the sum of a method's ranks. Friedman, JASA 32, 1937.
    """
    count, methods = len(rows), len(rows[0])
    sums = [math.fsum(row[place] for row in rows) for place in range(methods)]
    plain = 12 / (count * methods * (methods + 1)) * math.fsum(total**2 for total in sums)
    plain -= 3 * count * (methods + 1)
    ties = sum(_ties(row) for row in rows)
    correction = 1 - ties / (count * methods * (methods**2 - 1))
    if correction == 0:
        # All methods are equal in all settings.
        return Friedman(0.0, 1.0)
    statistic = max(plain / correction, 0.0)
    return Friedman(statistic, float(_scipy_stats().chi2.sf(statistic, methods - 1)))


def _ties(row: Sequence[float]) -> int:
    """Return the sum of t^3 - t over groups of t equal ranks."""
    counts = [list(row).count(rank) for rank in set(row)]
    return sum(count**3 - count for count in counts)


def critical_difference(methods: int, settings: int, alpha: float = ALPHA) -> float:
    """Return Nemenyi's critical difference: q sqrt(k (k + 1) / (6 n)).

    `q` is the quantile of the studentised range of k values with infinitely many degrees of freedom, over sqrt(2).
    """
    quantile = float(_scipy_stats().studentized_range.ppf(1 - alpha, methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * settings))


def indistinct_groups(ranking: Ranking) -> list[list[str]]:
    """Return the largest groups of methods whose mean ranks are closer than the critical difference, best first."""
    if ranking.critical_difference is None:
        return []
    order = sorted(ranking.mean_ranks, key=lambda method: ranking.mean_ranks[method])
    groups: list[list[str]] = []
    for first, method in enumerate(order):
        limit = ranking.mean_ranks[method] + ranking.critical_difference
        group = [other for other in order[first:] if ranking.mean_ranks[other] <= limit]
        held = bool(groups) and group[-1] == groups[-1][-1]
        if len(group) > 1 and not held:
            groups.append(group)
    return groups


def _scipy_stats() -> Any:
    """Return `scipy.stats`, which only these two distributions need."""
    try:
        return importlib.import_module("scipy.stats")
    except ImportError as error:
        raise ConfigError("ranks over settings need SciPy; pip install 'flatfed[data]'") from error
