"""Claims judged by several studies together: a comparison is always of one study's runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flatfed.published.claims.claim import EXACT, Claim
from flatfed.published.claims.intervals import Key, Numbers
from flatfed.published.claims.joint_numbers import JointNumbers
from flatfed.published.claims.judging import (
    HOLDS,
    UNDECIDED,
    Verdict,
    judge,
    judge_numbers,
    measured_numbers,
    undecided,
)
from flatfed.studies.claimed.alike_settings import FREE
from flatfed.studies.claimed.claim_judge import ClaimJudge
from flatfed.studies.evidence.published_study import PublishedStudy

PARTLY = "holds in part"
PROVED, NOT_CHECKED, NOT_RUN = "proved by a test", "not checked", "not run"


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what the runs say of it, and the studies that were used.

    Attributes:
        outcome: `holds`, `holds in part` where some of its settings were not run, `does not hold`, `undecided`, or
            why no run decides it.
    """

    claim: Claim
    verdict: Verdict
    outcome: str
    studies: tuple[str, ...] = ()

    @property
    def is_tested(self) -> bool:
        """Whether runs say something of it."""
        return self.outcome not in (PROVED, NOT_CHECKED, NOT_RUN)

    @property
    def reason(self) -> str:
        """What decided it, or what is missing."""
        if self.outcome == PROVED:
            return f"`{self.claim.tests[0]}`"
        if self.outcome == NOT_CHECKED:
            return self.claim.not_checked
        missing = [one.reason for one in self.verdict.comparisons if one.is_missing]
        if self.outcome == NOT_RUN and missing:
            return missing[0]
        return self.verdict.sentence.partition(": ")[2]


@dataclass(frozen=True)
class _Part:
    """What one study has of a claim.

    Attributes:
        places: the study's own settings for those of the claim.
        values: its numbers, under the claim's names.
        free: the settings that count because the claim is about what is the same everywhere.
    """

    judge: ClaimJudge
    places: Mapping[str, str]
    values: Mapping[Key, Mapping[int, float]]
    free: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many runs speak of the claim."""
        return sum(len(by_seed) for by_seed in self.values.values())


class JointJudge:
    """Judges claims by all studies that are about a paper."""

    def __init__(self, studies: Sequence[PublishedStudy]) -> None:
        self._judges = {
            study.name: ClaimJudge(study.running, study.about.stands_for)
            for study in studies
            if study.about.differences and study.ended[0]
        }

    def judge(self, claim: Claim) -> JudgedClaim:
        """Judge one claim."""
        if not claim.rules:
            return JudgedClaim(claim, judge(claim, {}), PROVED if claim.tests else NOT_CHECKED)
        judged = self._by_runs(claim)
        # Runs may confirm or refute an identity or a count; where they leave it open, its tests prove it.
        if claim.kind == EXACT and claim.tests and judged.outcome in (UNDECIDED, NOT_RUN):
            return JudgedClaim(claim, judged.verdict, PROVED)
        return judged

    def _by_runs(self, claim: Claim) -> JudgedClaim:
        parts = self._parts(claim)
        if not parts:
            missing = undecided(claim, f"no study with an ended run has {self._missing(claim)}")
            return JudgedClaim(claim, missing, NOT_RUN)
        numbers = JointNumbers({name: measured_numbers(claim, part.values) for name, part in parts.items()})
        run = list(dict.fromkeys(theirs for part in parts.values() for theirs in part.places))
        judged = judge_settings(claim, numbers, run, _free(parts))
        if judged.outcome == NOT_RUN:
            return judged
        used = {name: part for name, part in parts.items() if name in numbers.used}
        return replace(judged, verdict=_remarked(claim, judged.verdict, used), studies=tuple(used))

    def _missing(self, claim: Claim) -> str:
        names = [name for name in claim.every_setting if name != "any"]
        return f"the setting {' or '.join(names)}" if names else claim.metric

    def _parts(self, claim: Claim) -> dict[str, _Part]:
        """Return what studies have of a claim, the one with the most runs first."""
        found: dict[str, _Part] = {}
        for name, one in self._judges.items():
            alike, named = self._alike(one, claim), one.settings.named(claim)
            places = named | alike
            if places:
                free = tuple(theirs for theirs in alike if theirs not in claim.settings)
                found[name] = _Part(one, places, one.values_in(claim, places), free)
        return dict(sorted(found.items(), key=lambda item: -item[1].count))

    def _alike(self, one: ClaimJudge, claim: Claim) -> dict[str, str]:
        """Return the settings that were said to be the claim's; any, where it is about what is the same everywhere.

        One that is only divided in the same way, of other data perhaps, does not count here.
        """
        is_free = any(setting in FREE for setting in claim.settings)
        alike = one.settings.alike(claim)
        return {theirs: ours for theirs, ours in alike.items() if is_free or theirs in claim.settings}


def _free(parts: Mapping[str, _Part]) -> list[str]:
    """Return where a claim is judged that is about what is the same everywhere: where most of its methods were run."""
    counts: Counter[str] = Counter()
    for part in parts.values():
        for theirs in part.free:
            counts[theirs] = max(counts[theirs], sum(setting == theirs for setting, _ in part.values))
    return [name for name, count in counts.items() if count == max(counts.values())]


def judge_settings(claim: Claim, numbers: Numbers, run: Sequence[str], free: Sequence[str] = ()) -> JudgedClaim:
    """Judge a claim by the settings that were run, and say where they are only a part of its own.

    Args:
        claim: what is claimed.
        numbers: of its metric.
        run: the settings that there are runs of.
        free: those of them that are judged because the claim is about what is the same everywhere.
    """
    own = [name for name in run if name in claim.settings or name in free]
    verdict = judge_numbers(claim, numbers, own)
    if all(comparison.is_missing for comparison in verdict.comparisons):
        return JudgedClaim(claim, verdict, NOT_RUN)
    wanted = [name for name in claim.every_setting if name not in FREE]
    there = [name for name in wanted if name in run]
    if verdict.outcome != HOLDS or len(there) == len(wanted):
        return JudgedClaim(claim, verdict, verdict.outcome)
    said = verdict.sentence.replace(": ", f": in {len(there)} of {len(wanted)} settings; ", 1)
    return JudgedClaim(claim, replace(verdict, sentence=said), PARTLY)


def _remarked(claim: Claim, verdict: Verdict, parts: Mapping[str, _Part]) -> Verdict:
    """Return the verdict with a word on data that are not the claim's."""
    remarks = dict.fromkeys(part.judge.settings.remark(claim, part.places.values()) for part in parts.values())
    said = "; ".join(filter(None, remarks))
    return replace(verdict, sentence=f"{verdict.sentence} ({said})") if said else verdict


def counted(judged: Sequence[JudgedClaim]) -> Counter[str]:
    """Return how many claims have which outcome."""
    return Counter(one.outcome for one in judged)
