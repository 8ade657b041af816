"""Runs that are at chance: they learned nothing, and how flat the loss is there says nothing of the method."""

from __future__ import annotations

from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.results import Entry

MARK = "‡"
NEAR = 0.005
"""A share of the examples: who is no further above chance has learned nothing."""


def chance_of(study: PublishedStudy, setting: str) -> float | None:
    """Return the accuracy of guessing, as a share; None where it is not accuracy that is reported."""
    metric = study.table.metrics.get(setting)
    classes = study.described(setting).get("data", {}).get("classes")
    if metric is None or not metric.column.endswith("accuracy") or not classes:
        return None
    return 1 / int(classes)


def seeds_at_chance(study: PublishedStudy, entry: Entry) -> set[int]:
    """Return the seeds of a method's runs that have learned nothing."""
    chance = chance_of(study, entry.setting)
    if chance is None:
        return set()
    return {seed for seed, value in entry.values.items() if value <= chance + NEAR}


def chance_mark(study: PublishedStudy, entry: Entry) -> str:
    """Return the mark of a method whose runs are at chance, with how many of them where that is not all."""
    count = len(seeds_at_chance(study, entry))
    if not count:
        return ""
    return f" {MARK}" if count == len(entry.values) else f" {MARK} {count} of {len(entry.values)} seeds"


def chance_note(study: PublishedStudy) -> str:
    """Say what the mark means; nothing where no run bears it."""
    entries = [study.table.entry(setting, variant) for setting, variant in study.study.columns()]
    if not any(chance_mark(study, entry) for entry in entries):
        return ""
    return (
        f" {MARK} at most {100 * NEAR:g} points above chance: nothing was learned, and what is measured of such a "
        "model says nothing of the method."
    )
