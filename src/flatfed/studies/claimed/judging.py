"""Judging claims by a study: its settings and variants in the place of those that a paper had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flatfed.core.errors import ConfigError, nearest
from flatfed.published.claims.claim import Claim
from flatfed.published.claims.intervals import Key
from flatfed.published.claims.judging import Verdict, judge, undecided
from flatfed.published.claims.reading import settings as known_settings
from flatfed.studies.claimed.values import StudyValues
from flatfed.studies.claimed.variants import find_variant
from flatfed.studies.run_study import RunningStudy

ALL = "all"
"""What the only setting of a study without settings is called."""


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
        self.settings = {name or ALL: name for name in running.study.settings}
        self.standing_for = dict(standing_for or {})
        for theirs, ours in self.standing_for.items():
            _refuse_unknown(theirs, known_settings(), "setting of claims")
            _refuse_unknown(ours, self.settings, "setting of the study")

    def judge(self, claim: Claim) -> Judged:
        """Judge one claim."""
        if not claim.rules:
            return Judged(claim, judge(claim, {}), False)
        own = self._own_settings(claim)
        # A setting that stands for one of the claims' is known by both names.
        named = {theirs: self._ours(theirs) for theirs in claim.every_setting}
        named |= {name: name for name in own}
        values = self._values(claim, named)
        if values is None:
            return Judged(claim, undecided(claim, f"not measured: the study has no {claim.metric}"), False)
        verdict = judge(claim, values, own)
        return Judged(claim, verdict, any(not one.is_missing for one in verdict.comparisons))

    def _own_settings(self, claim: Claim) -> Sequence[str]:
        """Return where rules are judged that name no setting: what stands for the claim's, or else every setting."""
        standing = [name for name in claim.settings if self._ours(name) is not None]
        return standing or list(self.settings)

    def _ours(self, theirs: str) -> str | None:
        """Return the study's setting that stands for one of the claims'."""
        if theirs in self.standing_for:
            return self.standing_for[theirs]
        return theirs if theirs in self.settings else None

    def _values(self, claim: Claim, named: Mapping[str, str | None]) -> dict[Key, Mapping[int, float]] | None:
        """Return the claim's numbers under its own names; None where the study did not measure them."""
        found = self.values.of(claim.metric)
        if not found:
            return None
        values: dict[Key, Mapping[int, float]] = {}
        for method in claim.methods:
            variant = find_variant(method, self.methods)
            for theirs, ours in named.items():
                if variant is None or ours is None:
                    continue
                numbers = found.get((self.settings[ours], variant))
                if numbers:
                    values[theirs, method] = numbers
        return values


def _refuse_unknown(name: str, known: Iterable[str], kind: str) -> None:
    known = list(known)
    if name not in known:
        raise ConfigError(nearest(name, known, kind))
