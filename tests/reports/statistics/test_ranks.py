"""Ranks over settings: by hand, against SciPy, and against the published table of critical values."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats

from flatfed.reports.statistics.ranks import (
    average_ranks,
    critical_difference,
    friedman,
    indistinct_groups,
    rank_methods,
)

METHODS = ("fedavg", "fedsam", "fedgloss")


def scores(*rows: tuple[float | None, ...]) -> dict[str, dict[str, float | None]]:
    return {f"setting {place}": dict(zip(METHODS, row, strict=True)) for place, row in enumerate(rows)}


def higher(table: dict[str, dict[str, float | None]]) -> dict[str, bool]:
    return dict.fromkeys(table, True)


def test_ties_share_the_mean_of_their_ranks() -> None:
    assert average_ranks([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]
    assert average_ranks([5, 5, 5]) == [2, 2, 2]
    assert average_ranks([]) == []


@pytest.mark.parametrize("seed", range(5))
def test_ranks_and_friedman_against_scipy(seed: int) -> None:
    generator = np.random.Generator(np.random.PCG64(seed))
    # Few different values: with ties.
    table = generator.integers(0, 5, size=(9, 4)).astype(float)
    rows = [average_ranks(list(row)) for row in table]
    assert np.array(rows) == pytest.approx(scipy.stats.rankdata(table, axis=1))
    expected = scipy.stats.friedmanchisquare(*table.T)
    actual = friedman(rows)
    assert (actual.statistic, actual.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_friedman_by_hand() -> None:
    # Three methods, four settings, always the same order: sums 4, 8, 12; chi2 = 12 / 48 * 224 - 48 = 8.
    outcome = friedman([[1, 2, 3]] * 4)
    assert outcome.statistic == pytest.approx(8)
    assert outcome.p == pytest.approx(math.exp(-4))  # two degrees of freedom


def test_methods_that_are_always_equal_do_not_differ() -> None:
    assert friedman([[1.5, 1.5]] * 3).p == 1


@pytest.mark.parametrize(
    ("methods", "quantile"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (10, 3.164)],
)
def test_the_critical_values_are_the_published_ones(methods: int, quantile: float) -> None:
    # Demsar 2006, table 5a.
    expected = quantile * math.sqrt(methods * (methods + 1) / (6 * 14))
    assert critical_difference(methods, 14) == pytest.approx(expected, rel=4e-4)


def test_the_published_example() -> None:
    # Demsar 2006, section 3.2.2: four classifiers on 14 data sets, CD 1.25 at 5 % (2.569 there, to three decimals).
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_mean_ranks_and_direction() -> None:
    table = scores((0.5, 0.6, 0.7), (0.5, 0.7, 0.6))
    ranking = rank_methods(table, higher(table))
    assert ranking.mean_ranks == {"fedavg": 3.0, "fedsam": 1.5, "fedgloss": 1.5}
    of_loss = rank_methods(table, dict.fromkeys(table, False))
    assert of_loss.mean_ranks == {"fedavg": 1.0, "fedsam": 2.5, "fedgloss": 2.5}
    assert ranking.friedman is not None and ranking.critical_difference is not None
    assert "With 2 settings" in ranking.remark


def test_who_diverged_is_last_and_who_has_no_value_yet_leaves_the_setting_out() -> None:
    table = scores((math.nan, 0.6, 0.7), (0.5, None, 0.6), (0.9, 0.6, 0.7))
    ranking = rank_methods(table, higher(table))
    assert ranking.settings == ("setting 0", "setting 2")
    assert ranking.left_out == ("setting 1",)
    assert ranking.mean_ranks == {"fedavg": 2.0, "fedsam": 2.5, "fedgloss": 1.5}


@pytest.mark.parametrize("table", [scores(), scores((0.1, 0.2, 0.3)), scores((0.1, None, 0.3), (0.1, 0.2, 0.3))])
def test_one_setting_ranks_nothing(table: dict[str, dict[str, float | None]]) -> None:
    ranking = rank_methods(table, higher(table))
    assert ranking.friedman is None and ranking.critical_difference is None
    assert "at least two settings" in ranking.remark
    json.dumps(ranking.to_dict(), allow_nan=False)


def test_many_settings_need_no_remark_and_groups_are_the_largest() -> None:
    rows = [(0.1 + n / 100, 0.2 + n / 100, 0.3 + n / 100) for n in range(12)]
    table = scores(*rows)
    ranking = rank_methods(table, higher(table))
    assert ranking.remark == ""
    assert ranking.critical_difference == pytest.approx(0.957, abs=0.001)
    assert indistinct_groups(ranking) == []
    few = rank_methods(scores(*rows[:4]), higher(table))
    assert indistinct_groups(few) == [["fedgloss", "fedsam"], ["fedsam", "fedavg"]]


def test_at_most_five_per_cent_of_null_tables_differ() -> None:
    generator = np.random.Generator(np.random.PCG64(9))
    count = 1000
    outcomes = [friedman([average_ranks(list(row)) for row in generator.normal(size=(12, 4))]).p for _ in range(count)]
    assert 0 < sum(p <= 0.05 for p in outcomes) <= scipy.stats.binom.ppf(0.999, count, 0.05)
