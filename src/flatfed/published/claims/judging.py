"""Judging a claim by numbers: every comparison with its interval, and a verdict that never says more than they do.

A claim holds where every comparison does; it does not hold where one is decided against it; all else is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from flatfed.published.claims.claim import TARGET_COSTS, Claim
from flatfed.published.claims.intervals import (
    DIVERGED,
    MeanInterval,
    MeasuredNumbers,
    NotKnown,
    NotMeasured,
    Numbers,
    Values,
)
from flatfed.published.claims.rules import Pair

HOLDS: Literal["holds"] = "holds"
FAILS: Literal["does not hold"] = "does not hold"
UNDECIDED: Literal["undecided"] = "undecided"
Outcome = Literal["holds", "does not hold", "undecided"]

WORST = {"accuracy": -math.inf, "miou": -math.inf}
"""What a run that diverged counts as, where that is known."""


@dataclass(frozen=True)
class ComparedPair:
    """One comparison of a claim.

    Attributes:
        statement: what is claimed of it: `fedsam is lower than fedavg @ cifar10-0`.
        outcome: what the numbers say.
        left: the mean of the one side; None where it is not known.
        right: that of the other.
        interval: of their difference or ratio; None where there is none.
        reason: why it is undecided, or what decided it.
    """

    statement: str
    outcome: Outcome
    left: float | None = None
    right: float | None = None
    interval: MeanInterval | None = None
    reason: str = ""
    is_missing: bool = False
    """Whether one of the numbers was never measured."""
    is_difference: bool = False
    """Whether the interval is of a difference, so that it can be compared with those of others."""

    @property
    def sentence(self) -> str:
        """All of it in words."""
        parts = [self.statement, self.numbers, self.reason]
        return f"{self.outcome}: {'; '.join(part for part in parts if part)}"

    @property
    def numbers(self) -> str:
        """Both sides, their difference or ratio, and its interval; empty where they are not known."""
        if self.interval is None or self.left is None or self.right is None:
            return ""
        at = self.interval
        seeds = f", {at.count} seeds" if at.count else ""
        compared = f"{_side_text(self.left)} against {_side_text(self.right)}"
        if not math.isfinite(at.estimate):
            return f"{compared}{seeds}"
        return f"{compared}, {self.interval_text}{seeds}"

    @property
    def interval_text(self) -> str:
        """The difference or ratio with its interval; empty where there is none, or it is not finite."""
        at = self.interval
        if at is None or not math.isfinite(at.estimate):
            return ""
        return f"{at.estimate:.4g} [{at.low:.4g}, {at.high:.4g}]"


def _side_text(mean: float) -> str:
    """Return a mean; it is infinite where a seed did not reach the target, or diverged."""
    return f"{mean:.4g}" if math.isfinite(mean) else "not reached by every seed"


@dataclass(frozen=True)
class Verdict:
    """What numbers say of a claim: the outcome, every comparison, and a sentence."""

    claim: str
    outcome: Outcome
    comparisons: tuple[ComparedPair, ...]
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON; what is not finite is null."""
        record: dict[str, Any] = _plain(asdict(self))
        return record


def judge(claim: Claim, values: Values, settings: Sequence[str] | None = None) -> Verdict:
    """Judge a claim by the values of runs, by setting and method and then by seed.

    Args:
        claim: what is claimed.
        values: of the claim's metric: accuracies in per cent, NaN for a run that diverged, infinity for a target that
            was not reached.
        settings: those in which rules are judged that name none; those of the claim where nothing is given.
    """
    return judge_numbers(claim, measured_numbers(claim, values), settings)


def measured_numbers(claim: Claim, values: Values, lost: str = DIVERGED) -> MeasuredNumbers:
    """Return values of a claim's metric as numbers that know what a run that diverged counts as."""
    return MeasuredNumbers(values, WORST.get(claim.metric, math.nan), lost)


def judge_numbers(claim: Claim, numbers: Numbers, settings: Sequence[str] | None = None) -> Verdict:
    """Judge a claim by any numbers."""
    if not claim.rules:
        return undecided(claim, _without_rules(claim))
    own = claim.settings if settings is None else tuple(settings)
    comparisons: list[ComparedPair] = []
    for rule in claim.rules:
        comparisons += compare(claim, rule.pairs_in(own), numbers)
    if not comparisons:
        return undecided(claim, "there is no setting to judge it in")
    return verdict_of(claim, comparisons)


def compare(claim: Claim, pairs: Iterable[Pair], numbers: Numbers) -> tuple[ComparedPair, ...]:
    """Make some comparisons of a claim."""
    is_coarse = claim.metric in TARGET_COSTS
    return tuple(_compared(pair, numbers, is_coarse) for pair in pairs)


def verdict_of(claim: Claim, comparisons: Sequence[ComparedPair]) -> Verdict:
    """Return what comparisons, one at least, say of a claim."""
    outcome = _outcome([one.outcome for one in comparisons])
    return Verdict(claim.id, outcome, tuple(comparisons), _sentence(outcome, comparisons))


def undecided(claim: Claim, reason: str) -> Verdict:
    """Return the verdict on a claim that cannot be judged at all."""
    return Verdict(claim.id, UNDECIDED, (), f"{UNDECIDED}: {reason}")


def _without_rules(claim: Claim) -> str:
    if claim.tests:
        return f"an identity or a count, which {claim.tests[0]} proves and no training decides"
    return f"not checked: {claim.not_checked}"


def _outcome(outcomes: Sequence[Outcome]) -> Outcome:
    if FAILS in outcomes:
        return FAILS
    if UNDECIDED in outcomes:
        return UNDECIDED
    return HOLDS


def _sentence(outcome: Outcome, comparisons: Sequence[ComparedPair]) -> str:
    """Return how many comparisons say what, and the first of those that decide."""
    counted = ", ".join(f"{count} {name}" for name, count in _counts(comparisons))
    return f"{outcome}: comparisons: {counted}; {deciding(outcome, comparisons).sentence}"


def deciding(outcome: Outcome, comparisons: Sequence[ComparedPair]) -> ComparedPair:
    """Return the comparison that a sentence tells: of those against a claim the widest difference, else the first.

    One that was measured tells more than one that was not.
    """
    agreeing = [one for one in comparisons if one.outcome == outcome]
    measured = [one for one in agreeing if not one.is_missing]
    differences = [one for one in measured if one.is_difference]
    if outcome == FAILS and len(differences) == len(measured):
        return max(differences, key=_width)
    return (measured or agreeing)[0]


def _width(one: ComparedPair) -> float:
    """Return how far apart the two sides are; infinite where one never reached the target."""
    assert one.interval is not None
    return abs(one.interval.estimate)


def _counts(comparisons: Sequence[ComparedPair]) -> Iterator[tuple[str, int]]:
    names = {HOLDS: "for it", FAILS: "against it", UNDECIDED: "undecided"}
    for outcome, name in names.items():
        count = sum(one.outcome == outcome and not one.is_missing for one in comparisons)
        if count:
            yield name, count
    missing = sum(one.is_missing for one in comparisons)
    if missing:
        yield "not measured", missing


def _compared(pair: Pair, numbers: Numbers, is_coarse: bool) -> ComparedPair:
    statement = _statement(pair)
    try:
        if pair.relation in ("fails", "trains"):
            return _trained(pair, numbers, statement)
        left, right = numbers.means(pair.left, pair.right)
        if pair.relation == "ratio":
            interval = numbers.ratio(pair.left, pair.right)
        else:
            interval = numbers.difference(pair.left, pair.right)
    except NotMeasured as error:
        return ComparedPair(statement, UNDECIDED, reason=str(error), is_missing=True)
    except NotKnown as error:
        return ComparedPair(statement, UNDECIDED, reason=str(error))
    outcome = _decided(pair, interval)
    if is_coarse and outcome == FAILS and interval.low == interval.high == 0 and interval.count:
        return ComparedPair(statement, UNDECIDED, left, right, interval, "equal in the rounds that were evaluated")
    return ComparedPair(statement, outcome, left, right, interval, is_difference=pair.relation != "ratio")


def _statement(pair: Pair) -> str:
    if pair.relation == "fails":
        return f"{pair.left} diverges or stays below {pair.right}"
    if pair.relation == "trains":
        return f"{pair.left} trains to {pair.right} or more"
    if pair.relation in ("difference", "ratio"):
        sign = "/" if pair.relation == "ratio" else "-"
        return f"({pair.left}) {sign} ({pair.right}) {_bounds(pair)}"
    than = f"{pair.relation} than{' or equal to' if pair.ties else ''}"
    return f"{pair.left} is {than} {pair.right}"


def _bounds(pair: Pair) -> str:
    if pair.low is None:
        return f"is at most {pair.high:g}"
    if pair.high is None:
        return f"is at least {pair.low:g}"
    if pair.low == pair.high:
        return f"equals {pair.low:g}"
    return f"lies between {pair.low:g} and {pair.high:g}"


def _decided(pair: Pair, interval: MeanInterval) -> Outcome:
    """Say on which side an interval lies, if it lies on one as a whole."""
    if pair.relation in ("difference", "ratio"):
        low = -math.inf if pair.low is None else pair.low
        high = math.inf if pair.high is None else pair.high
        return _side(interval.low >= low and interval.high <= high, interval.high < low or interval.low > high)
    # As differences that are claimed to be above zero.
    ends = (interval.low, interval.high)
    if pair.relation == "lower":
        ends = (-interval.high, -interval.low)
    if pair.ties:
        return _side(ends[0] >= 0, ends[1] < 0)
    # Equal for every seed is not lower; an interval that ends at zero decides nothing.
    return _side(ends[0] > 0, ends[1] < 0 or ends == (0, 0))


def _side(inside: bool, outside: bool) -> Outcome:
    if inside:
        return HOLDS
    if outside:
        return FAILS
    return UNDECIDED


def _trained(pair: Pair, numbers: Numbers, statement: str) -> ComparedPair:
    """Compare each run with the bound: only what all seeds agree in is decided."""
    values = numbers.each(pair.left)
    failed = [math.isnan(value) or value < pair.right.number for value in values]
    count = f"{sum(failed)} of {len(failed)} runs failed"
    if any(failed) and not all(failed):
        return ComparedPair(statement, UNDECIDED, reason=count)
    agrees = failed[0] == (pair.relation == "fails")
    return ComparedPair(statement, HOLDS if agrees else FAILS, reason=count)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
