"""Comparisons with a reference: which seeds pair, what is corrected, and what is said where nothing can be."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats

from flatfed.core.errors import ConfigError
from flatfed.reports.statistics.holm import holm
from flatfed.reports.statistics.paired import SeedValues, compare_with_reference, narrow_intervals, warning
from flatfed.reports.statistics.permutation import sign_flip_test


def samples(**values: list[float]) -> dict[tuple[str, str], SeedValues]:
    """One setting, seeds from 0 on."""
    return {("one", method): SeedValues(dict(enumerate(numbers))) for method, numbers in values.items()}


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_holm_is_as_strict_as_bonferroni_for_the_smallest_only() -> None:
    p_values = [0.001, 0.01, 0.02, 0.03]
    corrected = holm(p_values)
    assert corrected[0] == 4 * 0.001
    assert all(p <= own <= min(4 * p, 1) for p, own in zip(p_values, corrected, strict=True))


def test_only_seeds_that_both_have_are_paired() -> None:
    table = {
        ("one", "fedavg"): SeedValues({0: 0.5, 1: 0.6, 2: 0.7}),
        ("one", "fedsam"): SeedValues({1: 0.65, 2: 0.8, 3: 0.9}),
    }
    (one,) = compare_with_reference(table, "fedavg")
    assert (one.setting, one.method) == ("one", "fedsam")
    assert one.differences == pytest.approx({1: 0.05, 2: 0.1})
    assert one.mean == pytest.approx(0.075)
    assert one.interval is not None
    assert (one.interval.low, one.interval.high) == pytest.approx((0.05, 0.1))
    assert one.p == one.p_holm == 0.5


def test_a_pairing_finds_what_the_spread_over_seeds_hides() -> None:
    seeds = np.arange(8)
    table = samples(fedavg=list(0.1 * seeds), fedsam=list(0.1 * seeds + 0.01 + 0.001 * seeds))
    (one,) = compare_with_reference(table, "fedavg")
    assert one.p == 2 / 2**8
    assert one.is_significant
    assert scipy.stats.ttest_ind(0.1 * seeds, 0.1 * seeds + 0.01 + 0.001 * seeds).pvalue > 0.9


def test_holm_counts_all_comparisons_of_the_table() -> None:
    table = {}
    for setting in ("a", "b"):
        table |= {(setting, "fedavg"): SeedValues(dict.fromkeys(range(7), 0.0))}
        for method in ("fedsam", "fedgloss"):
            table |= {(setting, method): SeedValues({seed: 1.0 + seed for seed in range(7)})}
    compared = compare_with_reference(table, "fedavg")
    assert len(compared) == 4
    assert [one.p for one in compared] == [2 / 2**7] * 4
    assert [one.p_holm for one in compared] == [8 / 2**7] * 4
    # The same without the correction would be significant.
    assert not any(one.is_significant for one in compared)
    assert warning(compared).startswith("With 7 seeds and 4 comparisons no p below 0.062 is possible")
    assert "8 seeds are the fewest" in warning(compared)


def test_too_few_seeds_are_said_and_enough_are_not() -> None:
    def of(count: int) -> str:
        return warning(compare_with_reference(samples(a=[0.0] * count, b=[1.0] * count), "a"))

    assert of(1) == (
        "With 1 seed and 1 comparison no p below 1 is possible, so nothing can be significant at 5 %, whatever the "
        "runs say: 6 seeds are the fewest that can."
    )
    assert "no p below 0.062" in of(5)
    assert of(6) == ""


def test_intervals_of_few_seeds_are_said_to_be_narrow() -> None:
    few = compare_with_reference(samples(a=[0.0] * 5, b=[1.0] * 5), "a")
    assert "too narrow" in narrow_intervals(few)
    many = compare_with_reference(samples(a=[0.0] * 10, b=[1.0] * 10), "a")
    assert narrow_intervals(many) == ""
    assert narrow_intervals([]) == ""


def test_seeds_that_diverged_are_said() -> None:
    table = {
        ("one", "fedavg"): SeedValues({0: 0.5, 1: 0.6, 2: 0.7}),
        ("one", "fedsam"): SeedValues({0: 0.6}, {1: "diverged", 2: "waiting"}),
    }
    (one,) = compare_with_reference(table, "fedavg")
    assert one.remark == "With seed 1 the method diverged: this is left out, and favours the method."
    (other,) = compare_with_reference(table, "fedsam")
    assert other.remark == "With seed 1 the reference diverged: this is left out, and favours the reference."


def test_a_value_that_is_not_finite_diverged() -> None:
    table = samples(fedavg=[0.5, 0.6, 0.7], fedsam=[0.6, float("nan"), float("inf")])
    (one,) = compare_with_reference(table, "fedavg")
    assert one.differences == pytest.approx({0: 0.1})
    assert one.remark.startswith("With seed 1, 2 the method diverged")


def test_without_a_common_seed_nothing_is_compared() -> None:
    table = {("one", "a"): SeedValues({0: 0.5}), ("one", "b"): SeedValues({1: 0.5}), ("two", "b"): SeedValues({0: 1.0})}
    compared = compare_with_reference(table, "a")
    assert len(compared) == 1
    assert compared[0].p is None and compared[0].mean is None and not compared[0].is_significant
    assert "no seed that both have" in compared[0].remark
    assert "Nothing can be compared" in warning(compared)


def test_an_unknown_reference_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown method 'fedvag'; did you mean 'fedavg'"):
        compare_with_reference(samples(fedavg=[1.0]), "fedvag")


def test_it_is_ready_for_json_and_always_the_same() -> None:
    table = samples(a=[0.1, 0.2, 0.3], b=[0.2, 0.5, 0.3])
    first, second = (
        json.dumps([one.to_dict() for one in compare_with_reference(table, "a")], allow_nan=False) for _ in range(2)
    )
    assert first == second
    assert json.loads(first)[0]["pairs"] == 3


def test_at_most_five_per_cent_of_null_tables_have_a_false_positive() -> None:
    # Six methods that all share the reference's seeds, none different from it.
    generator = np.random.Generator(np.random.PCG64(5))
    count, false = 600, 0
    for _ in range(count):
        values = generator.normal(size=(7, 10)) + 3 * generator.normal(size=10)
        p_values = [sign_flip_test(list(row - values[0])).p for row in values[1:]]
        false += min(holm(p_values)) <= 0.05
    assert 0 < false <= scipy.stats.binom.ppf(0.999, count, 0.05)
