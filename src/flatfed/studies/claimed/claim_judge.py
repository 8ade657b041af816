"""Judging claims by a study: its settings and variants in the place of those that a paper had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flatfed.published.claims.claim import Claim
from flatfed.published.claims.intervals import Key
from flatfed.published.claims.judging import Verdict, judge, undecided
from flatfed.studies.claimed.alike_settings import StudySettings
from flatfed.studies.claimed.run_numbers import StudyValues
from flatfed.studies.claimed.variants import find_variants
from flatfed.studies.run_study import RunningStudy

NO_SETTING = "no setting of the study is divided as the claim's; say with --as which one stands for it"


@dataclass(frozen=True)
class Judged:
    """A claim, and what the study says of it.

    Attributes:
        touched: whether the study measured something that the claim is about.
    """

    claim: Claim
    verdict: Verdict
    touched: bool


class ClaimJudge:
    """Judges claims by a study.

    Args:
        running: the study in its folder.
        standing_for: which of its settings stand for which of the claims': `{"cifar10-0": "one class"}`.
    """

    def __init__(self, running: RunningStudy, standing_for: Mapping[str, str] | None = None) -> None:
        self.values = StudyValues(running)
        self.methods = running.study.methods
        self.settings = StudySettings(running, standing_for or {})

    def judge(self, claim: Claim) -> Judged:
        """Judge one claim."""
        if not claim.rules:
            return Judged(claim, judge(claim, {}), False)
        if not self.values.of(claim.metric):
            return Judged(claim, undecided(claim, f"not measured: the study has no {claim.metric}"), False)
        alike, named = self.settings.alike(claim), self.settings.named(claim)
        if not alike and not named:
            return Judged(claim, undecided(claim, NO_SETTING), False)
        verdict = judge(claim, self.values_in(claim, named | alike), list(alike))
        touched = any(not comparison.is_missing for comparison in verdict.comparisons)
        return Judged(claim, self._remarked(claim, verdict, [*alike.values(), *named.values()]), touched)

    def values_in(self, claim: Claim, places: Mapping[str, str]) -> dict[Key, Mapping[int, float]]:
        """Return the claim's numbers under its own names; `places` are the study's settings for the claim's."""
        variants = find_variants(claim.methods, self.methods)
        values: dict[Key, Mapping[int, float]] = {}
        for quantity in claim.quantities:
            metric, method = claim.metric_and_method(quantity)
            if method not in variants:
                continue
            found = self.values.of(metric)
            for theirs, ours in places.items():
                key = (self.settings.names[ours], variants[method])
                if key in found:
                    values[theirs, quantity] = found[key]
        return values

    def _remarked(self, claim: Claim, verdict: Verdict, ours: list[str]) -> Verdict:
        """Return the verdict with a word on data that are not the claim's."""
        remark = self.settings.remark(claim, ours)
        if not remark:
            return verdict
        return replace(verdict, sentence=f"{verdict.sentence} ({remark})")
