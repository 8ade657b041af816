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
from flatfed.studies.evidence.setting_table import target_of
from flatfed.studies.evidence.study_section import SEEDS
from flatfed.studies.reporting.study_runs import setting_name

MANY_CLASSES = 100
SHOWN = 3
HEAD = """# Which method when

Made from the published results alone. A method is named only where all of its seeds have ended, at least three, and
where every one of them reached the target if the need is a cost. Targets are the mean accuracy of the reference in
the same setting, so a cost says what the same quality takes. A study that is not complete names the best so far."""
HEADS = ["study", "setting", "best", "then", "not separated from the best"]
NOTHING_YET = "No study that speaks of it has three ended seeds of two methods yet."

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
        rules = [rule(words=True)] * len(HEADS)
        parts += [f"## {need.title}", need.why, markdown_table(HEADS, rules, rows) if rows else NOTHING_YET]
    return "\n\n".join(parts) + "\n"


def _rows(study: PublishedStudy, need: Need) -> Rows:
    for setting in study.study.settings:
        if not need.fits(_described(study, setting)):
            continue
        ranked = _by_cost(study, setting, need.cost) if need.cost else _by_accuracy(study, setting)
        if len(ranked) > 1:
            best, *others = [f"{escape_markdown(method)}: {text}" for method, text in ranked]
            near = "–" if need.cost else ", ".join(_not_separated(study, setting, ranked)) or "none"
            yield [study.name, setting_name(setting), f"**{best}**", "; ".join(others[: SHOWN - 1]), near]


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
    found = []
    for variant in study.study.methods:
        line = target_of(study, setting, variant)
        spread = None if line is None else line.costs[name]
        if line is not None and spread is not None and line.reached == line.runs >= SEEDS:
            found.append((variant, spread[0]))
    return [(variant, _cost(name, mean)) for variant, mean in sorted(found, key=lambda pair: pair[1])]


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
