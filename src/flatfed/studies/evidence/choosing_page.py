"""Which method when: for each need, the settings that speak of it, and the methods that do best there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.reports.statistics.paired import SeedValues, compare_with_reference
from flatfed.reports.tables.grid import NOTHING, Spread, markdown_table, megabytes, of_metric, rule
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.studies.claimed.variants import taken_apart
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.chance import chance_of
from flatfed.studies.evidence.sections.setting_table import target_of, target_words
from flatfed.studies.evidence.sections.study_section import SEEDS
from flatfed.studies.reporting.study_runs import setting_name
from flatfed.studies.reporting.study_targets import TargetLine

MANY_CLASSES = 100
SHOWN = 3
HEAD = """# Which method when

Made from the published results alone. A method is named only where all seeds of its study have ended, at least three,
and none diverged. A study that is not complete names the best so far.

Runs are small: networks of ten to fifty thousand parameters, tens to hundreds of rounds, targets that the papers pass
early, three seeds, and no interval for an order of means. What each study cannot say stands on the papers' pages; take
this as what to try first.

Costs are counted to a target: the mean of the study's reference in the same setting, or a number that the study names;
it stands in the table. A run has reached it in the first evaluated round that is as good. So a cost is known to the
grid of evaluations only, and later rounds may be worse: where accuracy jumps from round to round, as with one class per
client, the first such round is a lucky one, and costs say little. A method is named only where every seed reached the
target and the mean that is reported is as good as well. Methods whose means are equal are all named as best; those
whose means lie within a deviation of each other are not distinguished.

Accuracies are compared by seed: a method is separated from the best where the interval of the differences does not hold
zero, also where their means lie within a deviation of each other, since seeds shift all methods alike. With three seeds
one pair of equal methods in four is separated by chance. SWA can be added to any method; one with SWA is compared here
with others that do without."""
HEADS = ["study", "setting", "chance", "best", "then", "not separated from the best"]
COST_HEADS = ["study", "setting", "target", "best", "then"]
NOTHING_YET = "No study that speaks of it has two such methods yet."

Rows = Iterator[list[str]]


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
    fits: Callable[[dict[str, Any]], bool] = lambda described: True


@dataclass(frozen=True)
class Ranked:
    """A method with what decides its rank, as a number and as text."""

    method: str
    mean: float
    text: str

    def __str__(self) -> str:
        return f"{escape_markdown(self.method)}: {self.text}"


def _one_class(described: dict[str, Any]) -> bool:
    classes = described.get("clients", {}).get("classes") or {}
    return bool(classes.get("max") == 1)


def _many_classes(described: dict[str, Any]) -> bool:
    return int(described.get("data", {}).get("classes") or 0) >= MANY_CLASSES


NEEDS = (
    Need("Few rounds", "The fewest rounds to the target.", "round"),
    Need("Little traffic", "The fewest bytes, down and up, to the target.", "bytes"),
    Need("Tight compute", "The fewest forward and backward passes to the target.", "backprops"),
    Need("One class per client", "The highest accuracy where no client has two classes.", fits=_one_class),
    Need("Many classes", f"The highest accuracy with {MANY_CLASSES} classes or more.", fits=_many_classes),
)


def choosing_page(studies: Sequence[PublishedStudy]) -> str:
    """Return the page."""
    compared = [study for study in studies if study.about.differences]
    parts = [HEAD]
    for need in NEEDS:
        rows = [row for study in compared for row in _rows(study, need)]
        parts += [f"## {need.title}", need.why, _table(need, rows) if rows else NOTHING_YET]
    return "\n\n".join(parts) + "\n"


def _table(need: Need, rows: list[list[str]]) -> str:
    heads = COST_HEADS if need.cost else HEADS
    return markdown_table(heads, [rule(words=True)] * len(heads), rows)


def _rows(study: PublishedStudy, need: Need) -> Rows:
    for setting in study.study.settings:
        if not need.fits(study.described(setting)):
            continue
        ranked = _by_cost(study, setting, need.cost) if need.cost else _by_accuracy(study, setting)
        if len(_methods(study, ranked)) > 1:
            place = [study.name, setting_name(setting)]
            if need.cost:
                yield [*place, _target(study, setting, ranked[0].method), *named_best(ranked)]
            else:
                close = ", ".join(_not_separated(study, setting, ranked)) or "none"
                yield [*place, _chance(study, setting), *named_best(ranked), close]


def _chance(study: PublishedStudy, setting: str) -> str:
    """Return the accuracy of guessing, beside which small accuracies are to be read."""
    chance = chance_of(study, setting)
    return NOTHING if chance is None else f"{100 * chance:g} %"


def _methods(study: PublishedStudy, ranked: Sequence[Ranked]) -> set[str]:
    """Return the methods that are ranked; forms of one with other parameters leave no choice of a method."""
    return {taken_apart(study.study.methods[one.method])[0] for one in ranked}


def named_best(ranked: Sequence[Ranked]) -> list[str]:
    """Return the best, with all that are equal to it, and those that come then, with all that are equal to the last."""
    best = [one for one in ranked if one.mean == ranked[0].mean]
    others = ranked[len(best) :]
    last = [one.mean for one in others[: SHOWN - 1]][-1:]
    then = [one for place, one in enumerate(others) if place < SHOWN - 1 or one.mean in last]
    return ["; ".join(f"**{one}**" for one in best), "; ".join(map(str, then)) or NOTHING]


def _target(study: PublishedStudy, setting: str, variant: str) -> str:
    """Say what was to be reached: `37.53 %`, or `the mean of fedavg: 37.53 %`."""
    line, words = target_of(study, setting, variant), target_words(study)
    return words if line is None or line.goal == words else f"{words}: {line.goal}"


def _by_accuracy(study: PublishedStudy, setting: str) -> list[Ranked]:
    metric = study.table.metrics.get(setting)
    entries = [study.table.entry(setting, variant) for variant in study.study.methods]
    whole = [(entry, entry.mean) for entry in entries if entry.mean is not None and len(entry.values) >= SEEDS]
    if metric is None:
        return []
    order = sorted(whole, key=lambda pair: pair[1], reverse=metric.shown.higher_is_better is not False)
    return [Ranked(entry.variant, mean, of_metric(metric, (mean, entry.spread))) for entry, mean in order]


def _by_cost(study: PublishedStudy, setting: str, name: str) -> list[Ranked]:
    """Return the methods that reached the target, with what it took; that which took least is the first."""
    found = []
    for variant in study.study.methods:
        line = target_of(study, setting, variant)
        spread = None if line is None else line.costs[name]
        if line is not None and spread is not None and _has_reached(study, setting, line):
            found.append(Ranked(variant, spread[0], _cost(name, spread)))
    return sorted(found, key=lambda one: one.mean)


def _has_reached(study: PublishedStudy, setting: str, line: TargetLine) -> bool:
    """Say whether all seeds reached a target, and the reported mean did: one lucky evaluation is not enough."""
    metric, mean = study.table.metrics.get(setting), study.table.entry(setting, line.method).mean
    # There is no mean where a seed is missing or diverged.
    if metric is None or mean is None or not metric.reaches(mean, line.value):
        return False
    return line.reached == line.runs == len(study.study.seeds) >= SEEDS


def _cost(name: str, spread: Spread) -> str:
    written = [_amount(name, part) for part in spread if part is not None]
    return " ± ".join(written)


def _amount(name: str, amount: float) -> str:
    return megabytes(amount) if name == "bytes" else f"{amount:,.0f}"


def _not_separated(study: PublishedStudy, setting: str, ranked: Sequence[Ranked]) -> list[str]:
    """Return the methods whose difference to the best, by seed, has an interval that holds zero."""
    best = ranked[0].method
    entries = {one.method: study.table.entry(setting, one.method) for one in ranked}
    samples = {(setting, name): SeedValues(entry.values, entry.ended) for name, entry in entries.items()}
    compared = compare_with_reference(samples, best)
    return [
        escape_markdown(one.method)
        for one in compared
        if one.interval is None or one.interval.low <= 0 <= one.interval.high
    ]
