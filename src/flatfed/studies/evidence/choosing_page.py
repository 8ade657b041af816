"""Which method when: for each need, the settings that speak of it, and the methods that do best there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.reports.statistics.paired import SeedValues, compare_with_reference
from flatfed.reports.tables.grid import markdown_table, megabytes, of_metric, rule
from flatfed.reports.tables.pivot import escape_markdown
from flatfed.runs.directory import RunDirectory
from flatfed.studies.evidence.published_study import PublishedStudy
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
grid of evaluations only, and later rounds may be worse. A method is named only where every seed reached the target and
the mean that is reported is as good as well."""
HEADS = ["study", "setting", "best", "then", "not separated from the best"]
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
        if not need.fits(_described(study, setting)):
            continue
        ranked = _by_cost(study, setting, need.cost) if need.cost else _by_accuracy(study, setting)
        if len(ranked) > 1:
            best, *others = [f"{escape_markdown(method)}: {text}" for method, text in ranked]
            named = [f"**{best}**", "; ".join(others[: SHOWN - 1])]
            place = [study.name, setting_name(setting)]
            if need.cost:
                yield [*place, _target(study, setting, ranked[0][0]), *named]
            else:
                yield [*place, *named, ", ".join(_not_separated(study, setting, ranked)) or "none"]


def _target(study: PublishedStudy, setting: str, variant: str) -> str:
    """Say what was to be reached: `37.53 %`, or `the mean of fedavg: 37.53 %`."""
    line, words = target_of(study, setting, variant), target_words(study)
    return words if line is None or line.goal == words else f"{words}: {line.goal}"


def _described(study: PublishedStudy, setting: str) -> dict[str, Any]:
    """Return what a run of a setting recorded of data and clients; nothing where none has ended."""
    for (of, _), runs in study.table.runs.items():
        if of == setting:
            described: dict[str, Any] = RunDirectory.open(next(iter(runs.values()))).config.get("setting") or {}
            return described
    return {}


def _by_accuracy(study: PublishedStudy, setting: str) -> list[tuple[str, str]]:
    metric = study.table.metrics.get(setting)
    entries = [study.table.entry(setting, variant) for variant in study.study.methods]
    whole = [(entry, entry.mean) for entry in entries if entry.mean is not None and len(entry.values) >= SEEDS]
    if metric is None:
        return []
    order = sorted(whole, key=lambda pair: pair[1], reverse=metric.shown.higher_is_better is not False)
    return [(entry.variant, of_metric(metric, (mean, entry.spread))) for entry, mean in order]


def _by_cost(study: PublishedStudy, setting: str, name: str) -> list[tuple[str, str]]:
    """Return the methods that reached the target, with what it took; that which took least is the first."""
    found = []
    for variant in study.study.methods:
        line = target_of(study, setting, variant)
        spread = None if line is None else line.costs[name]
        if line is not None and spread is not None and _has_reached(study, setting, line):
            found.append((variant, spread[0]))
    return [(variant, _cost(name, mean)) for variant, mean in sorted(found, key=lambda pair: pair[1])]


def _has_reached(study: PublishedStudy, setting: str, line: TargetLine) -> bool:
    """Say whether all seeds reached a target, and the reported mean did: one lucky evaluation is not enough."""
    metric, mean = study.table.metrics.get(setting), study.table.entry(setting, line.method).mean
    # There is no mean where a seed is missing or diverged.
    if metric is None or mean is None or not metric.reaches(mean, line.value):
        return False
    return line.reached == line.runs == len(study.study.seeds) >= SEEDS


def _cost(name: str, mean: float) -> str:
    return megabytes(mean) if name == "bytes" else f"{mean:,.0f}"


def _not_separated(study: PublishedStudy, setting: str, ranked: Sequence[tuple[str, str]]) -> list[str]:
    """Return the methods whose difference to the best, by seed, has an interval that holds zero."""
    best = ranked[0][0]
    entries = {variant: study.table.entry(setting, variant) for variant, _ in ranked}
    samples = {(setting, name): SeedValues(entry.values, entry.ended) for name, entry in entries.items()}
    compared = compare_with_reference(samples, best)
    return [
        escape_markdown(one.method)
        for one in compared
        if one.interval is None or one.interval.low <= 0 <= one.interval.high
    ]
