"""Claims judged by several studies together.

The comparisons of a rule in a setting are made by the runs of one study, the one that has the most of them, and so are
all comparisons of a rule across settings: networks and rounds of two studies may differ. What no study has run is left
out, and said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flatfed.published.claims.claim import EXACT, Claim
from flatfed.published.claims.claim_file import settings as known_settings
from flatfed.published.claims.intervals import DIVERGED, Key, MeasuredNumbers
from flatfed.published.claims.judging import (
    FAILS,
    HOLDS,
    UNDECIDED,
    ComparedPair,
    Verdict,
    compare,
    judge,
    measured_numbers,
    undecided,
    verdict_of,
)
from flatfed.published.claims.rules import PairGroup, Rule
from flatfed.studies.claimed.alike_settings import FREE
from flatfed.studies.claimed.claim_judge import ClaimJudge
from flatfed.studies.claimed.variants import find_variants
from flatfed.studies.evidence.counted_words import counted_words
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import seeds_at_chance

OF_MODELS = (
    "lambda_max",
    "lambda_ratio",
    "lambda_local",
    "lambda_global",
    "lambda_global_over_local",
    "lpf",
    "discrepancy",
    "incompatibility",
)
"""Metrics that say nothing of a method whose model has learned nothing."""
AT_CHANCE = "a model diverged or is at chance, so that its sharpness says nothing"
PARTLY = "holds in part"
PROVED, NOT_CHECKED, NOT_RUN = "proved by a test", "not checked", "not run"
SET_ASIDE = "set aside"


@dataclass(frozen=True)
class AsideStudy:
    """A study that says too little of a claim, and what its runs would say of it if they counted.

    Attributes:
        reason: why it says too little.
        outcome: what would come of the claim by this study alone.
        sentence: its comparisons.
    """

    study: str
    reason: str
    outcome: str
    sentence: str


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what the runs say of it, and the studies that were used.

    Attributes:
        outcome: `holds`, `holds in part` where some of its settings or rules were not run, `does not hold`,
            `undecided`, or why no run decides it.
        settings: of the claim that runs speak of.
        aside: studies with runs of it that do not count.
        with_chance: what would come of it if models at chance counted, where that is something else.
    """

    claim: Claim
    verdict: Verdict
    outcome: str
    studies: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    aside: tuple[AsideStudy, ...] = ()
    with_chance: str = ""

    @property
    def is_tested(self) -> bool:
        """Whether runs say something of it."""
        return self.outcome not in (PROVED, NOT_CHECKED, NOT_RUN, SET_ASIDE)

    @property
    def reason(self) -> str:
        """What decided it, or what is missing."""
        if self.outcome == PROVED:
            return f"`{self.claim.tests[0]}`"
        if self.outcome == NOT_CHECKED:
            return self.claim.not_checked
        missing = [one.reason for one in self.verdict.comparisons if one.is_missing]
        if self.outcome == SET_ASIDE:
            return "; ".join(f"{one.study} says too little of it: {one.reason}" for one in self.aside)
        if self.outcome == NOT_RUN and missing:
            return missing[0]
        return self.verdict.sentence.partition(": ")[2]


@dataclass(frozen=True)
class _StudyPart:
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
        self._silent = {study.name: study.about.cannot_judge for study in studies}
        self._studies = {study.name: study for study in studies}

    def judge(self, claim: Claim) -> JudgedClaim:
        """Judge one claim."""
        if not claim.rules:
            return JudgedClaim(claim, judge(claim, {}), PROVED if claim.tests else NOT_CHECKED)
        judged = replace(self._by_runs(claim), aside=tuple(self._aside(claim)))
        if claim.metric in OF_MODELS:
            judged = self._beside_chance(claim, judged)
        if judged.outcome == NOT_RUN and judged.aside:
            judged = replace(judged, outcome=SET_ASIDE)
        # Runs may confirm or refute an identity or a count; where they do so for a part, its tests prove the whole.
        if claim.kind == EXACT and claim.tests and judged.outcome in (PARTLY, UNDECIDED, SET_ASIDE, NOT_RUN):
            return JudgedClaim(claim, judged.verdict, PROVED, aside=judged.aside)
        return judged

    def _beside_chance(self, claim: Claim, judged: JudgedClaim) -> JudgedClaim:
        """Return a judged claim that knows what would come of it if models at chance counted."""
        counting = self._by_runs(claim, with_chance=True).outcome
        return judged if counting == judged.outcome else replace(judged, with_chance=counting)

    def _aside(self, claim: Claim) -> Iterator[AsideStudy]:
        """Yield what studies that say too little of a claim have of it; nothing where nothing was measured."""
        for name in self._judges:
            reason = self._silent[name].get(claim.id)
            if not reason:
                continue
            part = self._part(name, claim)
            if part is None:
                continue
            numbers = {name: measured_numbers(claim, part.values)}
            judged = judge_studies(claim, numbers, list(part.places), _free({name: part}))
            if judged.outcome != NOT_RUN:
                yield AsideStudy(name, reason, judged.outcome, judged.reason)

    def _by_runs(self, claim: Claim, with_chance: bool = False) -> JudgedClaim:
        parts = self._parts(claim, with_chance)
        if not parts:
            return JudgedClaim(claim, undecided(claim, self._missing(claim)), NOT_RUN)
        lost = AT_CHANCE if claim.metric in OF_MODELS else DIVERGED
        numbers = {name: measured_numbers(claim, part.values, lost) for name, part in parts.items()}
        run = list(dict.fromkeys(theirs for part in parts.values() for theirs in part.places))
        judged = judge_studies(claim, numbers, run, _free(parts))
        used = {name: parts[name] for name in judged.studies}
        return replace(judged, verdict=_remarked(claim, judged.verdict, used))

    def _missing(self, claim: Claim) -> str:
        """Say of which settings of a claim there is no run."""
        words = [known_settings()[name].words or name for name in claim.every_setting if name not in FREE]
        if not words:
            return f"no study has {claim.metric}"
        others = "" if len(words) == 1 else f", nor of {counted_words(len(words) - 1, 'other setting')} of the claim"
        return f"no study has a run of ({words[0]}){others}"

    def _parts(self, claim: Claim, with_chance: bool) -> dict[str, _StudyPart]:
        """Return what studies have of a claim, the one with the most runs first; not those that say too little."""
        found: dict[str, _StudyPart] = {}
        for name in self._judges:
            part = self._part(name, claim, with_chance)
            if part is not None and claim.id not in self._silent[name]:
                found[name] = part
        return dict(sorted(found.items(), key=lambda item: -item[1].count))

    def _part(self, name: str, claim: Claim, with_chance: bool = False) -> _StudyPart | None:
        """Return what a study has of a claim; nothing where it has none of its settings."""
        one = self._judges[name]
        alike, named = self._alike(one, claim), one.settings.named(claim)
        places = named | alike
        if not places:
            return None
        free = tuple(theirs for theirs in alike if theirs not in claim.settings)
        values = one.values_in(claim, places)
        return _StudyPart(one, places, values if with_chance else self._taught(name, claim, places, values), free)

    def _taught(
        self, name: str, claim: Claim, places: Mapping[str, str], values: Mapping[Key, Mapping[int, float]]
    ) -> Mapping[Key, Mapping[int, float]]:
        """Return the numbers with none for what was measured of a model that is at chance."""
        study = self._studies[name]
        variants = find_variants(claim.methods, study.study.methods)
        kept = {}
        for (theirs, quantity), by_seed in values.items():
            metric, method = claim.metric_and_method(quantity)
            setting = self._judges[name].settings.names[places[theirs]]
            lost = seeds_at_chance(study, study.table.entry(setting, variants[method])) if metric in OF_MODELS else ()
            kept[theirs, quantity] = {seed: math.nan if seed in lost else one for seed, one in by_seed.items()}
        return kept

    def _alike(self, one: ClaimJudge, claim: Claim) -> dict[str, str]:
        """Return the settings that were said to be the claim's; any, where it is about what is the same everywhere.

        One that is only divided in the same way, of other data perhaps, does not count here.
        """
        is_free = any(setting in FREE for setting in claim.settings)
        alike = one.settings.alike(claim)
        return {theirs: ours for theirs, ours in alike.items() if is_free or theirs in claim.settings}


def _free(parts: Mapping[str, _StudyPart]) -> list[str]:
    """Return where a claim is judged that is about what is the same everywhere: where most of its methods were run."""
    counts: Counter[str] = Counter()
    for part in parts.values():
        for theirs in part.free:
            counts[theirs] = max(counts[theirs], sum(setting == theirs for setting, _ in part.values))
    return [name for name, count in counts.items() if count == max(counts.values())]


def judge_studies(
    claim: Claim, studies: Mapping[str, MeasuredNumbers], run: Sequence[str], free: Sequence[str] = ()
) -> JudgedClaim:
    """Judge a claim by what was run of it, and say where that is only a part.

    Args:
        claim: what is claimed.
        studies: the numbers of its metric in each study, at least one; of two that have as much, the first is asked.
        run: the settings that there are runs of.
        free: those of them that are judged because the claim is about what is the same everywhere.
    """
    own = [name for name in run if name in claim.settings or name in free]
    judged = [one for rule in claim.rules for one in _judged_rule(claim, rule, own, studies)]
    speaking = [one for one in judged if one.speaks]
    if not speaking:
        comparisons = [one for group in judged for one in group.comparisons]
        verdict = verdict_of(claim, comparisons) if comparisons else undecided(claim, "no setting of it was run")
        return JudgedClaim(claim, verdict, NOT_RUN)
    there = tuple(dict.fromkeys(name for one in speaking for name in one.group.settings))
    # In a setting that was run a method that is missing leaves the claim open.
    counting = [one for one in judged if one.speaks or one.is_missing_in(there)]
    verdict = verdict_of(claim, [one for group in counting for one in group.comparisons])
    left_out = _left_out(claim, there, [one for one in judged if one not in counting])
    if left_out:
        verdict = replace(verdict, sentence=verdict.sentence.replace(": ", f": {left_out}; ", 1))
    otherwise = "; ".join(said for one in counting for said in one.otherwise)
    if otherwise:
        verdict = replace(verdict, sentence=f"{verdict.sentence}; otherwise in {otherwise}")
    outcome = PARTLY if left_out and verdict.outcome == HOLDS else verdict.outcome
    return JudgedClaim(claim, verdict, outcome, tuple(dict.fromkeys(one.study for one in speaking)), there)


@dataclass(frozen=True)
class _JudgedGroup:
    """Comparisons that were made by one study.

    Attributes:
        speaks: whether there are numbers enough to say something of the rule.
        otherwise: comparisons that another study decides the other way, in words.
    """

    group: PairGroup
    study: str
    comparisons: tuple[ComparedPair, ...]
    speaks: bool
    otherwise: Sequence[str]

    def is_missing_in(self, settings: Sequence[str]) -> bool:
        """Say whether it is about one of some settings, and no other."""
        return len(self.group.settings) == 1 and self.group.settings[0] in settings


def _judged_rule(
    claim: Claim, rule: Rule, settings: Sequence[str], studies: Mapping[str, MeasuredNumbers]
) -> list[_JudgedGroup]:
    """Make the comparisons of a rule, setting by setting."""
    return [_judged_group(claim, group, studies) for group in rule.groups_in(settings)]


def _judged_group(claim: Claim, group: PairGroup, studies: Mapping[str, MeasuredNumbers]) -> _JudgedGroup:
    """Make comparisons by the study that has the most of them."""
    measured = {name: [numbers.has(pair) for pair in group.pairs] for name, numbers in studies.items()}
    name = max(measured, key=lambda name: sum(measured[name]))
    made = [_said_across(group, one, studies) for one in compare(claim, group.pairs, studies[name])]
    others = {other: compare(claim, group.pairs, numbers) for other, numbers in studies.items() if other != name}
    otherwise = [
        f"{other}: {theirs.sentence}"
        for other, compared in others.items()
        for ours, theirs in zip(made, compared, strict=True)
        if _contradicts(ours, theirs)
    ]
    agreed = tuple(_disputed(ours, place, others) for place, ours in enumerate(made))
    return _JudgedGroup(group, name, agreed, group.speaks(measured[name]), otherwise)


def _said_across(group: PairGroup, one: ComparedPair, studies: Mapping[str, MeasuredNumbers]) -> ComparedPair:
    """Return a comparison; where one across settings is missing, say what no study has, or that none has all of it."""
    if not one.is_missing or len(group.settings) < 2:
        return one
    places = dict.fromkeys(place for pair in group.pairs for place in pair.places)
    nowhere = [place for place in places if not any(numbers.has_place(place) for numbers in studies.values())]
    if nowhere:
        more = f", nor {counted_words(len(nowhere) - 1, 'more number')} of the claim" if len(nowhere) > 1 else ""
        return replace(one, reason=f"no study has {nowhere[0]}{more}")
    return replace(one, reason="all of its numbers were measured, but no study has them all")


def _contradicts(ours: ComparedPair, theirs: ComparedPair) -> bool:
    return {ours.outcome, theirs.outcome} == {HOLDS, FAILS}


def _disputed(ours: ComparedPair, place: int, others: Mapping[str, Sequence[ComparedPair]]) -> ComparedPair:
    """Return a comparison, undecided where another study decides it the other way."""
    names = [name for name, compared in others.items() if _contradicts(ours, compared[place])]
    if not names:
        return ours
    said = f"it {'holds' if ours.outcome == HOLDS else 'fails'} here, and otherwise in {', '.join(names)}"
    return replace(ours, outcome=UNDECIDED, reason=said)


def _left_out(claim: Claim, there: Sequence[str], missing: Sequence[_JudgedGroup]) -> str:
    """Say what of a claim was not run; nothing where all of it was."""
    wanted = [name for name in claim.every_setting if name not in FREE]
    count = sum(name in there for name in wanted)
    if count < len(wanted):
        return f"in {count} of {len(wanted)} settings"
    if missing:
        return f"without {missing[0].comparisons[0].statement}"
    return ""


def _remarked(claim: Claim, verdict: Verdict, parts: Mapping[str, _StudyPart]) -> Verdict:
    """Return the verdict with a word on data that are not the claim's."""
    remarks = dict.fromkeys(part.judge.settings.remark(claim, part.places.values()) for part in parts.values())
    said = "; ".join(filter(None, remarks))
    return replace(verdict, sentence=f"{verdict.sentence} ({said})") if said else verdict


def counted(judged: Sequence[JudgedClaim]) -> Counter[str]:
    """Return how many claims have which outcome."""
    return Counter(one.outcome for one in judged)
