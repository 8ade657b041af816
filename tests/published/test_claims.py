"""The claims of the papers as data: complete, strict, and true of the papers' own numbers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flatfed.algorithms.spelling import parse_method
from flatfed.core.errors import ConfigError
from flatfed.published.claims import Claim, claims, find_claim, settings
from flatfed.published.claims.claim import METRICS
from flatfed.published.claims.claim_file import read_claims
from flatfed.published.claims.intervals import PrintedNumbers
from flatfed.published.claims.judging import judge_numbers
from flatfed.published.claims.printed import PRINTED_AS, judge_printed, printed_numbers
from flatfed.published.claims.rules import Pair, Rule, read_quantity, read_rule
from flatfed.published.numbers import papers, values

ROOT = Path(__file__).parents[2]

WITHIN_ONE_DEVIATION = {
    "fedgloss-10": "59.7 ± 1.2 and 59.5 ± 0.1, and 56.3 ± 0.2 and 56.0 ± 1.3: the papers' own deviations overlap",
    "fedgloss-16": "the gains of 1.1 and 0.1 points have a deviation of 1.1 between them",
}
"""Claims whose printed order is not larger than one standard deviation of it."""

NO_TABLE = {
    "fedgloss-12": "a figure",
    "fedgloss-21": "a figure",
    "fedgloss-24": "a figure",
    "fedsam-29": "a figure, and a bound in the text",
    "fedsam-43": "a figure",
    "fedwmsam-47": "said in the text",
    "fedvssam-58": "the accuracies cannot be read",
    "fedvssam-65": "a figure",
    "fedvssam-66": "a figure",
    "fedvssam-67": "figures",
    "fedgf-78": "a figure",
}
"""Claims with rules whose numbers no table prints."""

every_claim = pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id)
with_rules = pytest.mark.parametrize("claim", [one for one in claims() if one.rules], ids=lambda claim: claim.id)
with_numbers = pytest.mark.parametrize(
    "claim", [one for one in claims() if one.rules and one.id not in NO_TABLE], ids=lambda claim: claim.id
)


# --- complete ---------------------------------------------------------------------------------------------------------


def test_all_claims_are_here_in_the_papers_order() -> None:
    assert [claim.number for claim in claims()] == list(range(1, 86))
    counts = Counter(claim.paper for claim in claims())
    assert counts == {"fedgloss": 25, "fedsam": 21, "fedwmsam": 10, "fedvssam": 11, "fedgf": 14, "between": 4}
    assert list(counts) == [*papers(), "between"]


def test_they_can_be_chosen() -> None:
    assert {claim.kind for claim in claims(kind="Exact")} == {"exact"}
    assert {claim.id for claim in claims("fedgloss", "counter")} == {"fedgloss-08"}
    assert find_claim("FEDGLOSS-05") is find_claim("5") is find_claim("05") is claims()[4]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"paper": "fedglos"}, "unknown paper 'fedglos'; did you mean 'fedgloss'"),
        ({"kind": "trends"}, "did you mean 'trend'"),
    ],
)
def test_unknown_choices_name_the_nearest(choice: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        claims(**choice)


@pytest.mark.parametrize("id", ["86", "0", "fedgloss-5", ""])
def test_unknown_claims_are_refused(id: str) -> None:
    with pytest.raises(ConfigError, match="unknown claim"):
        find_claim(id)


@every_claim
def test_every_method_is_one_that_can_be_trained(claim: Claim) -> None:
    for method in claim.methods:
        parse_method(method)


@every_claim
def test_every_table_is_one_of_the_paper(claim: Claim) -> None:
    own = {value.table for value in values() if claim.paper in ("between", value.paper)}
    assert set(claim.tables) <= own


@every_claim
def test_every_test_that_proves_a_claim_exists(claim: Claim) -> None:
    for name in claim.tests:
        path, _, function = name.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name


def test_every_setting_is_used() -> None:
    assert {name for claim in claims() for name in claim.every_setting} == set(settings())


def test_every_metric_is_used() -> None:
    used = {claim.metric for claim in claims()}
    # Of the clients' models and of incompatibility papers say more than their claims do.
    assert set(METRICS) - used <= {"lambda_local", "incompatibility"}
    assert set(PRINTED_AS) <= set(METRICS)


def test_a_setting_in_words() -> None:
    assert settings()["cifar10-0"].words == "cifar10, cnn, dirichlet 0, 5 clients per round, 1 local epochs"
    assert settings()["cifar100-0-mixup"].words.endswith("mixup")
    assert settings()["any"].words == ""


# --- true of the papers' own numbers ----------------------------------------------------------------------------------


def by_means(claim: Claim) -> str:
    """The outcome of the printed means alone."""
    means = {key: (mean, None) for key, (mean, _) in printed_numbers(claim).items()}
    lowest = float("-inf") if claim.metric in ("accuracy", "miou") else float("nan")
    return judge_numbers(claim, PrintedNumbers(means, lowest)).outcome


@with_numbers
def test_the_papers_own_numbers_say_what_is_claimed(claim: Claim) -> None:
    verdict = judge_printed(claim)
    expected = "undecided" if claim.id in WITHIN_ONE_DEVIATION else "holds"
    assert verdict.outcome == expected, verdict.sentence
    assert by_means(claim) == "holds"


@with_numbers
def test_no_comparison_lacks_its_printed_numbers(claim: Claim) -> None:
    assert [one.statement for one in judge_printed(claim).comparisons if one.is_missing] == []


@with_numbers
def test_the_opposite_does_not_hold(claim: Claim) -> None:
    """What would hold of any numbers says nothing."""
    for rule in claim.rules:
        if rule.kind in ("order", "fails"):
            opposite = replace(claim, rules=(Rule(rule.kind, tuple(turned(pair) for pair in rule.pairs)),))
            assert by_means(opposite) == "does not hold" or all(pair.ties for pair in rule.pairs)


def turned(pair: Pair) -> Pair:
    other = {"lower": "higher", "higher": "lower", "fails": "trains", "trains": "fails"}
    return replace(pair, relation=other[pair.relation])


def test_the_lists_of_exceptions_are_as_short_as_can_be() -> None:
    assert {claim.id for claim in claims() if claim.rules and not printed_numbers(claim)} == set(NO_TABLE)
    assert {claim.id for claim in claims() if claim.id in NO_TABLE and claim.tables} == set()


def test_claims_without_rules_are_never_decided() -> None:
    for claim in claims():
        if not claim.rules:
            assert judge_printed(claim).outcome == "undecided"


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["fedsam", "fedsam @ cifar10-0", "fedsam - fedavg", "fedsam - fedavg @ a", "fedsam @ a - fedsam @ b"]
)
def test_a_quantity_is_written_as_it_is_read(text: str) -> None:
    assert str(read_quantity(text)) == text


def test_the_setting_of_a_difference_is_that_of_both() -> None:
    assert read_quantity("fedsam - fedavg @ a") == read_quantity("fedsam @ a - fedavg @ a")


def test_an_order_compares_neighbours_and_each_of_a_group() -> None:
    rule = read_rule({"order": ["a", ["b", "c"], "d", 5], "is": "lower"})
    pairs = [(str(pair.left), str(pair.right)) for pair in rule.pairs]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "5")]
    assert rule.methods == ("a", "b", "c", "d")


def test_a_rule_in_settings_of_its_own() -> None:
    rule = read_rule({"order": ["a", "b"], "is": "lower", "in": ["x", "y"]})
    assert rule.settings == ("x", "y")
    assert not rule.needs_own_settings
    assert [str(pair.left) for pair in rule.pairs_in(["z"])] == ["a @ x", "a @ y"]


def test_every_pair_of_a_rule_is_meant_in_each_of_its_own_settings() -> None:
    rule = read_rule({"order": ["a", ["b", "c"]], "is": "lower", "in": ["x", "y"]})
    assert [str(pair.right) for pair in rule.pairs] == ["b @ x", "b @ y", "c @ x", "c @ y"]


def test_pairs_of_one_setting_belong_together() -> None:
    rule = read_rule({"order": ["a", ["b", "c"]], "is": "lower"})
    first, second = rule.groups_in(["x", "y"])
    assert [str(pair.right) for pair in first.pairs] == ["b @ x", "c @ x"]
    assert [str(pair.right) for pair in second.pairs] == ["b @ y", "c @ y"]
    assert first.speaks([True, False]) and not first.speaks([False, False])


@pytest.mark.parametrize(
    "content",
    [
        {"order": ["b @ x", "a @ x", "a @ y"], "is": "lower"},
        {"fails": ["a @ x"], "trains": ["a @ y"], "below": 15},
    ],
)
def test_pairs_across_settings_belong_together(content: dict[str, object]) -> None:
    (group,) = read_rule(content).groups_in(["z"])
    assert group.settings == ("x", "y") and len(group.pairs) == 2
    assert group.speaks([True, True]) and not group.speaks([True, False])


def test_who_trains_says_nothing_without_one_that_should_fail() -> None:
    (group,) = read_rule({"fails": ["a", "b"], "trains": ["c"], "below": 2}).groups_in(["x"])
    assert group.speaks([True, False, False]) and not group.speaks([False, False, True])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a < b", "a rule holds `name: value` entries"),
        ({"is": "lower"}, "a rule has one of order, difference, ratio, fails"),
        ({"order": ["a", "b"], "iss": "lower"}, "unknown entry of the rule `order` 'iss'; did you mean 'is'"),
        ({"order": ["a", "b"]}, "`is` must be lower or higher, not None"),
        ({"order": ["a"], "is": "lower"}, "`order` needs at least two entries"),
        ({"order": "a", "is": "lower"}, "`order` must be a list"),
        ({"order": ["a", "b"], "is": "lower", "ties": 1}, "`ties` must be true or false"),
        ({"order": ["a", {}], "is": "lower"}, "a quantity is a method"),
        ({"order": ["a - b - c", "d"], "is": "lower"}, "a difference of two at most"),
        ({"order": ["a @ ", "d"], "is": "lower"}, "must be `method` or `method @ setting`"),
        ({"order": ["a", "b"], "is": "lower", "in": "x"}, "`in` must be a list"),
        ({"difference": ["a", "b"]}, "`between` must be a list"),
        ({"difference": ["a"], "between": [0, 1]}, "need two entries each"),
        ({"ratio": ["a", "b"], "between": [None, None]}, "`between` needs a bound"),
        ({"ratio": ["a", "b"], "between": [2, 1]}, "must not go down from 2 to 1"),
        ({"ratio": ["a", "b"], "between": ["x", 1]}, "`between` must be a number"),
        ({"fails": ["a"]}, "`below` must be a number"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(content: object, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_rule(content)


# --- the reader -------------------------------------------------------------------------------------------------------

GOOD = """\
settings:
  here: {dataset: digits, partition: dirichlet, partition_value: 0, local_epochs: 1}
claims:
  fedgloss-01:
    statement: One is lower
      than the other.
    where: Table 1
    kind: trend
    metric: accuracy
    settings: [here]
    rules:
      - {order: [fedsam, fedavg], is: lower}
"""


def test_a_good_text_is_read() -> None:
    known, found = read_claims("a.yaml", GOOD)
    assert known["here"].partition_value == "0"
    claim = found["fedgloss-01"]
    assert (claim.paper, claim.number, claim.line) == ("fedgloss", 1, 4)
    assert claim.statement == "One is lower than the other."
    assert claim.methods == ("fedsam", "fedavg")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("local_epochs: 1", "epochs: 1", 2, "unknown entry 'epochs'; did you mean 'local_epochs'"),
        ("local_epochs: 1", "local_epochs: 0", 2, "local_epochs must be a whole number from 1 on, not 0"),
        ("dataset: digits", "dataset: [digits]", 2, "dataset must be a word or a number"),
        ("claims:", "claim:", 1, "unknown part 'claim'; did you mean 'claims'"),
        ("fedgloss-01", "fedglos-01", 4, "unknown paper 'fedglos'; did you mean 'fedgloss'"),
        ("fedgloss-01", "fedgloss-1", 4, "the number of fedgloss-1 must be 01"),
        ("    where: Table 1\n", "", 4, "`where` is missing"),
        ("where: Table 1", "where: ''", 7, "`where` must be a text, not ''"),
        ("where: Table 1", "where: 3", 7, "`where` must be a text, not 3"),
        ("kind: trend", "kind: trnd", 8, "unknown kind of claim 'trnd'; did you mean 'trend'"),
        ("kind: trend", "kind: exact", 4, "an exact claim names the `tests` that prove it"),
        ("metric: accuracy", "metric: acuracy", 9, "unknown metric of claims 'acuracy'; did you mean 'accuracy'"),
        ("settings: [here]", "settings: [there]", 4, "unknown setting 'there'; did you mean 'here'"),
        ("settings: [here]", "settings: here", 10, "`settings` must be a list of texts"),
        ("    settings: [here]\n", "", 4, "a rule leaves its setting to the claim"),
        ("[fedsam, fedavg]", "[acc of fedsam, fedavg]", 4, "unknown metric of claims 'acc'"),
        ("is: lower}", "is: low}", 12, "`is` must be lower or higher, not 'low'"),
        ("rules:\n      - {order: [fedsam, fedavg], is: lower}", "tables: []", 4, "name the `methods`"),
        ("rules:\n      - {order: [fedsam, fedavg], is: lower}", "methods: [fedavg]", 4, "a claim has rules, or tests"),
        ("    rules:", "    not_checked: so\n    rules:", 4, "a claim that has rules is checked"),
    ],
)
def test_a_bad_entry_is_an_error_with_file_and_line(old: str, new: str, line: int, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        read_claims("a.yaml", GOOD.replace(old, new))
    assert str(raised.value).startswith(f"a.yaml, line {line}: ")


def test_what_is_no_yaml_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^a\.yaml: "):
        read_claims("a.yaml", "settings: [")
    with pytest.raises(ConfigError, match=r"a\.yaml, line 1: expected `name: value` entries"):
        read_claims("a.yaml", "- 1")
