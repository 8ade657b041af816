"""Verdicts on claims: decided only where every interval lies on one side, and never a bare yes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from flatfed.published.claims import Claim, Verdict, judge
from flatfed.published.claims.intervals import Values
from flatfed.published.claims.rules import read_rule

INF, NAN = math.inf, math.nan


def claim(*rules: Any, metric: str = "lambda_max", **changes: Any) -> Claim:
    read = tuple(read_rule(rule) for rule in rules)
    return Claim("fedgloss-01", "so it is", "Table 1", "trend", metric, read, ("s",), **changes)


def numbers(**by_method: list[float]) -> Values:
    return {("s", method): dict(enumerate(values)) for method, values in by_method.items()}


def verdict(rule: dict[str, Any], metric: str = "lambda_max", **by_method: list[float]) -> Verdict:
    return judge(claim(rule, metric=metric), numbers(**by_method))


LOWER = {"order": ["a", "b"], "is": "lower"}
HIGHER = {"order": ["a", "b"], "is": "higher"}


@pytest.mark.parametrize(
    ("a", "b", "lower", "higher"),
    [
        ([1, 2, 3], [4, 5, 6], "holds", "does not hold"),
        ([4, 5, 6], [1, 2, 3], "does not hold", "holds"),
        ([1, 5, 3], [4, 2, 6], "undecided", "undecided"),
        ([1, 2], [4, 5], "undecided", "undecided"),
        ([1, 2, 3], [1, 2, 3], "does not hold", "does not hold"),
        ([1, 2, 3], [1, 2, 4], "undecided", "undecided"),
        ([1, 2, 3], [INF, INF, INF], "holds", "does not hold"),
        ([1, 2, INF], [3, 4, INF], "undecided", "undecided"),
        ([1, 2, INF], [3, INF, 9], "undecided", "undecided"),
        ([1, 2, NAN], [3, 4, 5], "undecided", "undecided"),
    ],
)
def test_an_order(a: list[float], b: list[float], lower: str, higher: str) -> None:
    assert verdict(LOWER, a=a, b=b).outcome == lower
    assert verdict(HIGHER, a=a, b=b).outcome == higher


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("a", "b"), [([INF, INF, INF], [INF, INF, INF]), ([10, INF, 10], [20, INF, 20])])
def test_nothing_is_known_where_neither_reached_the_target(a: list[float], b: list[float], ties: bool) -> None:
    found = verdict({**LOWER, "ties": ties}, "rounds_to_target", a=a, b=b)
    assert found.outcome == "undecided"
    assert "neither reached the target" in found.sentence


def test_nothing_is_known_where_both_diverged() -> None:
    rule = {"difference": ["a", "b"], "between": [None, 2.5]}
    assert verdict(rule, "accuracy", a=[NAN, NAN, NAN], b=[NAN, NAN, NAN]).outcome == "undecided"


def test_equal_rounds_are_only_equal_to_the_evaluation() -> None:
    same = [20.0, 40.0, 20.0]
    found = verdict(LOWER, "rounds_to_target", a=same, b=same)
    assert found.outcome == "undecided" and "equal in the rounds that were evaluated" in found.sentence
    assert verdict({**LOWER, "ties": True}, "rounds_to_target", a=same, b=same).outcome == "holds"


def test_seeds_are_paired() -> None:
    """Seeds differ by far more than methods do, and yet each pair agrees."""
    assert verdict(LOWER, a=[1, 50, 100], b=[2, 51, 101.5]).outcome == "holds"
    assert verdict(LOWER, a=[1, 50, 100], b=[51, 101.5, 2]).outcome == "undecided"


def test_only_seeds_in_common_count() -> None:
    values = {("s", "a"): {0: 1.0, 1: 2.0, 2: 3.0}, ("s", "b"): {1: 5.0, 2: 6.0, 3: 7.0}}
    found = judge(claim(LOWER), values)
    assert found.outcome == "undecided"
    assert "2 seeds in common, where 3 are needed" in found.sentence


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [([1, 2, 3], [1, 2, 3], "holds"), ([1, 2, 3], [1, 2, 4], "holds"), ([2, 3, 4], [1, 2, 3], "does not hold")],
)
def test_an_order_with_ties(a: list[float], b: list[float], outcome: str) -> None:
    assert verdict({**LOWER, "ties": True}, a=a, b=b).outcome == outcome


@pytest.mark.parametrize(
    ("a", "outcome"),
    [([10, 20, 30], "holds"), ([11, 21, 31], "holds"), ([13, 23, 33], "does not hold"), ([11, 20, 33], "undecided")],
)
def test_a_difference_within_bounds(a: list[float], outcome: str) -> None:
    assert verdict({"difference": ["a", "b"], "between": [-2, 2]}, a=a, b=[10, 20, 30]).outcome == outcome


@pytest.mark.parametrize(
    ("bounds", "outcome"),
    [([1.9, 2.1], "holds"), ([2, 2], "holds"), ([2.5, None], "does not hold"), ([None, 1.5], "does not hold")],
)
def test_a_ratio_within_bounds(bounds: list[float | None], outcome: str) -> None:
    assert verdict({"ratio": ["a", "b"], "between": bounds}, a=[2, 4, 6], b=[1, 2, 3]).outcome == outcome


def test_a_ratio_of_means_is_over_pairs_of_seeds() -> None:
    found = verdict({"ratio": ["a", "b"], "between": [1.5, 2.5]}, a=[2, 41, 6], b=[1, 20, 3])
    interval = found.comparisons[0].interval
    assert interval is not None
    assert interval.estimate == pytest.approx(49 / 24)
    assert interval.low == pytest.approx(2)
    assert interval.high == pytest.approx(2.05)


@pytest.mark.parametrize("b", [[0, 1, 2], [INF, 1, 2], [NAN, 1, 2]])
def test_a_ratio_without_a_meaning_is_undecided(b: list[float]) -> None:
    assert verdict({"ratio": ["a", "b"], "between": [1, None]}, a=[1, 2, 3], b=b).outcome == "undecided"


FAILS = {"fails": ["a"], "trains": ["b"], "below": 2}


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        ([NAN, 1, 1.9], [30, 40, 50], "holds"),
        ([NAN, 1, 2], [30, 40, 50], "undecided"),
        ([30, 40, 50], [30, 40, 50], "does not hold"),
        ([NAN, NAN, NAN], [1, 1, 1], "does not hold"),
        ([NAN, NAN], [30, 40], "undecided"),
    ],
)
def test_failing(a: list[float], b: list[float], outcome: str) -> None:
    assert verdict(FAILS, "accuracy", a=a, b=b).outcome == outcome


def test_a_run_that_diverged_has_the_worst_accuracy_and_no_other_number() -> None:
    assert verdict(HIGHER, "accuracy", a=[1, 2, 3], b=[NAN, NAN, NAN]).outcome == "holds"
    assert verdict(HIGHER, "lambda_max", a=[1, 2, 3], b=[NAN, NAN, NAN]).outcome == "undecided"


def test_against_a_number_and_between_gains() -> None:
    assert verdict({"order": ["a", 5], "is": "higher"}, a=[6, 7, 8]).outcome == "holds"
    gains = {"order": ["a - b", "c - b"], "is": "higher"}
    assert verdict(gains, a=[9, 19, 29], b=[1, 2, 3], c=[2, 3, 5]).outcome == "holds"


def test_all_comparisons_must_hold() -> None:
    rule = {"order": ["a", ["b", "c"]], "is": "lower"}
    assert verdict(rule, a=[1, 2, 3], b=[4, 5, 6], c=[7, 8, 9]).outcome == "holds"
    assert verdict(rule, a=[1, 2, 3], b=[4, 5, 6], c=[0, 9, 9]).outcome == "undecided"
    assert verdict(rule, a=[1, 2, 3], b=[4, 5, 6]).outcome == "undecided"
    assert verdict(rule, a=[1, 2, 3], b=[0, 0, 0]).outcome == "does not hold"


def test_a_quantity_may_be_of_another_metric() -> None:
    both = claim(LOWER, {"difference": ["accuracy of a", "accuracy of b"], "between": [-1, 1]})
    assert both.methods == ("a", "b") and both.metrics == ("lambda_max", "accuracy")
    flat = {("s", "a"): dict.fromkeys(range(3), 1.0), ("s", "b"): dict.fromkeys(range(3), 2.0)}
    near = {
        ("s", "accuracy of a"): dict.fromkeys(range(3), 60.5),
        ("s", "accuracy of b"): dict.fromkeys(range(3), 60.0),
    }
    far = {**near, ("s", "accuracy of a"): dict.fromkeys(range(3), 65.0)}
    assert judge(both, flat | near).outcome == "holds"
    assert judge(both, flat | far).outcome == "does not hold"
    assert judge(both, flat).outcome == "undecided"


def test_settings_may_be_others_than_those_of_the_claim() -> None:
    values = {
        ("here", method): dict(enumerate(three)) for method, three in {"a": [1.0, 2, 3], "b": [4.0, 5, 6]}.items()
    }
    assert judge(claim(LOWER), values).outcome == "undecided"
    assert judge(claim(LOWER), values, ["here"]).outcome == "holds"
    assert judge(claim(LOWER), values, []).sentence == "undecided: there is no setting to judge it in"


def test_a_verdict_has_numbers_interval_and_sentence() -> None:
    found = verdict(LOWER, a=[1, 2, 3], b=[4, 5, 7])
    comparison = found.comparisons[0]
    assert (comparison.left, comparison.right) == (2, pytest.approx(16 / 3))
    assert comparison.interval is not None
    assert (comparison.interval.low, comparison.interval.high, comparison.interval.count) == (-4, -3, 3)
    assert found.sentence == (
        "holds: comparisons: 1 for it; holds: a @ s is lower than b @ s; 2 against 5.333, -3.333 [-4, -3], 3 seeds"
    )


def test_the_same_numbers_have_the_same_interval() -> None:
    seeds = [0.3, 1.7, 2.2, 0.9, 1.1, 4.0, 2.5]
    first, second = (verdict(LOWER, a=seeds, b=seeds[::-1]).comparisons[0].interval for _ in range(2))
    assert first == second
    assert first is not None and first.low < first.estimate < first.high


def test_a_verdict_for_json_is_finite() -> None:
    record = verdict(HIGHER, "accuracy", a=[1, 2, 3], b=[NAN, NAN, NAN]).to_dict()
    assert record["comparisons"][0]["right"] is None
    assert record["comparisons"][0]["interval"]["estimate"] is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"not_checked": "so"}, "undecided: not checked: so"),
        (
            {"tests": ("t.py::test",)},
            "undecided: an identity or a count, which t.py::test proves and no training decides",
        ),
    ],
)
def test_a_claim_without_rules_is_undecided(changes: dict[str, Any], sentence: str) -> None:
    assert judge(claim(**changes), {}).sentence == sentence
