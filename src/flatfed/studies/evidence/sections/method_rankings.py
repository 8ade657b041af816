"""The methods of published settings, ranked for what somebody may need: by accuracy, or by the cost to a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flatfed.reports.statistics.paired import PairedDifference, SeedValues, compare_with_reference
from flatfed.reports.tables.extras import Target
from flatfed.reports.tables.grid import known_items, megabytes, of_metric, spread_of
from flatfed.reports.tables.targets import Cost, Reaching
from flatfed.studies.claimed.variants import MAKES_ANOTHER, SWITCHES_OFF, taken_apart
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import chance_of
from flatfed.studies.evidence.sections.study_section import SEEDS
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.reporting.study_targets import TargetLine
from flatfed.studies.results import Entry

MANY_CLASSES = 100
FEWEST = 4
"""Methods of a setting that advice counts: to be the best of two or three says little."""
ABOVE_CHANCE = 0.05
"""How far above chance, as a share, a target must be: models below it have learned little, and one lucky evaluation
passes it."""

Described = Mapping[str, Any]
Costs = Mapping[str, Mapping[int, Cost]]
"""By variant and seed, what a run had spent when it reached the target; without the runs that did not."""


@dataclass(frozen=True)
class Need:
    """What somebody may need.

    Attributes:
        title: in few words.
        why: what is compared.
        cost: the cost to the target that is to be low; empty where accuracy is to be high.
        fits: whether a setting speaks of it, by the record of one of its runs.
    """

    title: str
    why: str
    cost: str = ""
    fits: Callable[[Described], bool] = lambda described: True


def _one_class(described: Described) -> bool:
    classes = described.get("clients", {}).get("classes") or {}
    return bool(classes.get("max") == 1)


def _many_classes(described: Described) -> bool:
    return int(described.get("data", {}).get("classes") or 0) >= MANY_CLASSES


NEEDS = (
    Need("Few rounds", "The fewest rounds to the target.", "round"),
    Need("Little traffic", "The fewest bytes, down and up, to the target.", "bytes"),
    Need("Tight compute", "The fewest forward and backward passes to the target.", "backprops"),
    Need("One class per client", "The highest accuracy where no client has two classes.", fits=_one_class),
    Need("Many classes", f"The highest accuracy with {MANY_CLASSES} classes or more.", fits=_many_classes),
)


@dataclass(frozen=True)
class Ranked:
    """A variant with what decides its rank.

    Attributes:
        variant: by its name in the study.
        mean: over seeds.
        text: the same for people.
        by_seed: what the mean is of.
    """

    variant: str
    mean: float
    text: str
    by_seed: Mapping[int, float]


@dataclass(frozen=True)
class RankedSetting:
    """The methods of one setting, ranked for one need.

    Attributes:
        study: that trained them.
        setting: which of its settings.
        ranked: the variants that can be named, the best first.
        target: what was to be reached, where a cost is compared.
    """

    study: PublishedStudy
    setting: str
    ranked: Sequence[Ranked]
    target: TargetLine | None = None

    @cached_property
    def best(self) -> list[Ranked]:
        """The best, with all that are equal to it."""
        return [one for one in self.ranked if one.mean == self.ranked[0].mean]

    @cached_property
    def close(self) -> list[Ranked]:
        """Those that are not separated from the best: by seed, the interval of the differences holds zero."""
        samples = {(self.setting, one.variant): SeedValues(one.by_seed) for one in self.ranked}
        compared = compare_with_reference(samples, self.ranked[0].variant)
        names = {one.method for one in compared if _holds_zero(one)}
        return [one for one in self.ranked if one.variant in names and one not in self.best]

    @cached_property
    def trained(self) -> set[str]:
        """The methods of which a variant has ended with all seeds, whatever came of it."""
        variants = self.study.study.methods_in(self.setting)
        return {self.method_of(variant) for variant in variants if has_ended(self.study, self.setting, variant)}

    @property
    def families(self) -> set[str]:
        """The same without parameters: forms of one method leave no choice of a method."""
        return {taken_apart(method)[0] for method in self.trained}

    @property
    def counts(self) -> bool:
        """Whether advice counts it."""
        return len(self.families) >= FEWEST

    @property
    def has_one_class(self) -> bool:
        """Whether no client has two classes."""
        return _one_class(self.study.described(self.setting))

    @property
    def is_near_chance(self) -> bool:
        """Whether its target is too near chance to say anything."""
        chance = chance_of(self.study, self.setting)
        if chance is None or self.target is None:
            return False
        # Rounded, since 0.06 - 0.01 is a little less than 0.05.
        return round(self.target.value - chance, 9) < ABOVE_CHANCE

    def method_of(self, variant: str) -> str:
        """Return the method that a variant is, as all studies spell it."""
        return method_of(self.study.study.methods[variant])

    def place_of(self, method: str) -> int:
        """Return the place of a method, from 0; equal ones share it, and one that cannot be named is behind all."""
        means = [one.mean for one in self.ranked]
        own = [means.index(one.mean) for one in self.ranked if self.method_of(one.variant) == method]
        return min(own, default=len(means))

    def methods_of(self, ranked: Sequence[Ranked]) -> list[str]:
        """Return the methods of some variants, each once."""
        return list(dict.fromkeys(self.method_of(one.variant) for one in ranked))


def _holds_zero(one: PairedDifference) -> bool:
    return one.interval is None or one.interval.low <= 0 <= one.interval.high


def method_of(spelling: str) -> str:
    """Return a method without the parameters that a study sets, and with those that make another method of it."""
    name, given = taken_apart(spelling)
    base, plus, rest = name.partition("+")
    own = [key for key in given if key in MAKES_ANOTHER.get(base, ()) or SWITCHES_OFF.get(key) == given[key]]
    inside = ",".join(f"{key}={str(given[key]).lower()}" for key in own)
    return f"{base}({inside}){plus}{rest}" if inside else name


def has_ended(study: PublishedStudy, setting: str, variant: str) -> bool:
    """Say whether all seeds of a variant have ended, as many as decide something."""
    entry = study.table.entry(setting, variant)
    diverged = sum(state == "diverged" for state in entry.ended.values())
    return len(entry.values) + diverged == len(study.study.seeds) >= SEEDS


def rankings(studies: Sequence[PublishedStudy]) -> dict[Need, list[RankedSetting]]:
    """Return for each need the settings that speak of it: those with a method to name, and with another to compare."""
    found: dict[Need, list[RankedSetting]] = {need: [] for need in NEEDS}
    for study in studies:
        for setting in study.study.settings if study.about.differences else ():
            for need, ranked in _of_setting(study, setting):
                if ranked.ranked and len(ranked.families) > 1:
                    found[need].append(ranked)
    return found


def _of_setting(study: PublishedStudy, setting: str) -> Iterator[tuple[Need, RankedSetting]]:
    target, costs = _target(study, setting), _costs(study, setting)
    for need in NEEDS:
        if not need.fits(study.described(setting)):
            continue
        if need.cost:
            yield need, RankedSetting(study, setting, _by_cost(study, setting, need.cost, costs), target)
        else:
            yield need, RankedSetting(study, setting, _by_accuracy(study, setting))


def _by_accuracy(study: PublishedStudy, setting: str) -> list[Ranked]:
    metric = study.table.metrics.get(setting)
    found = []
    for variant in study.study.methods_in(setting):
        entry = study.table.entry(setting, variant)
        if metric is not None and entry.mean is not None and has_ended(study, setting, variant):
            found.append(Ranked(variant, entry.mean, of_metric(metric, (entry.mean, entry.spread)), entry.values))
    is_high_best = metric is None or metric.shown.higher_is_better is not False
    return sorted(found, key=lambda one: one.mean, reverse=is_high_best)


def _by_cost(study: PublishedStudy, setting: str, name: str, costs: Costs) -> list[Ranked]:
    """Return the variants that reached the target with all seeds, that which took least first."""
    found = []
    for variant, by_seed in costs.items():
        if _has_reached(study, study.table.entry(setting, variant), by_seed):
            amounts = {seed: float(getattr(cost, name)) for seed, cost in by_seed.items()}
            found.append(_ranked_cost(variant, name, amounts))
    return sorted(found, key=lambda one: one.mean)


def _has_reached(study: PublishedStudy, entry: Entry, by_seed: Mapping[int, Cost]) -> bool:
    """Say whether all seeds reached the target, and the reported mean did: one lucky evaluation is not enough."""
    metric, target = study.table.metrics.get(entry.setting), _target(study, entry.setting)
    # There is no mean where a seed is missing or diverged.
    if metric is None or target is None or entry.mean is None or not metric.reaches(entry.mean, target.value):
        return False
    return len(by_seed) == len(study.study.seeds) >= SEEDS


def _ranked_cost(variant: str, name: str, amounts: Mapping[int, float]) -> Ranked:
    spread = spread_of(list(amounts.values()))
    assert spread is not None
    written = [_amount(name, part) for part in spread if part is not None]
    return Ranked(variant, spread[0], " ± ".join(written), amounts)


def _amount(name: str, amount: float) -> str:
    return megabytes(amount) if name == "bytes" else f"{amount:,.0f}"


def _target(study: PublishedStudy, setting: str) -> TargetLine | None:
    """Return a line of a setting's first target, which is the same for all methods; None where there is none yet."""
    return next((line for line in study.targets if line.setting == setting_name(setting)), None)


def _costs(study: PublishedStudy, setting: str) -> Costs:
    metric, target = study.table.metrics.get(setting), _target(study, setting)
    if metric is None or target is None:
        return {}
    reaching = Reaching(Target(target.target, target.value), (), chosen=metric)
    return {
        result.method: known_items({run.seed: reaching.cost(run) for run in result.runs})
        for result in study.results_in(setting)
    }
