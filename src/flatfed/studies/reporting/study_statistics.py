"""The statistics of a study: each method against the reference over seeds, and ranks over settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flatfed.bootstrap import DRAWS, LEVEL
from flatfed.core.errors import ConfigError
from flatfed.reports.statistics.paired import (
    ALPHA,
    PairedDifference,
    SeedValues,
    compare_with_reference,
    narrow_intervals,
    warning,
)
from flatfed.reports.statistics.ranks import Ranking, rank_methods
from flatfed.studies.results import Entry, StudyTable


@dataclass(frozen=True)
class StudyStatistics:
    """What can be said of a study.

    Attributes:
        reference: the method with which the others are compared.
        compared: a comparison for each other method in each setting.
        ranking: over the settings; None where there are not at least two, or no direction is known.
        warnings: sentences on what the numbers cannot say.
    """

    reference: str
    compared: list[PairedDifference]
    ranking: Ranking | None
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {
            "reference": self.reference,
            "test": "sign flips of the mean of paired differences, two-sided",
            "correction": "Holm, over all comparisons",
            "alpha": ALPHA,
            "interval": {"kind": "BCa bootstrap of the mean", "level": LEVEL, "draws": DRAWS, "seed": 0},
            "warnings": self.warnings,
            "comparisons": [one.to_dict() for one in self.compared],
            "ranks": self.ranking and self.ranking.to_dict(),
        }


def statistics_of(table: StudyTable) -> StudyStatistics:
    """Compare the methods of a study with `report.reference`, or with the first."""
    reference = table.study.report.reference or next(iter(table.study.methods))
    samples = {key: SeedValues(entry.values, entry.ended) for key, entry in table.entries.items()}
    compared = compare_with_reference(samples, reference)
    warnings = []
    if compared:
        warnings = [warning(compared), narrow_intervals(compared)]
    ranking = None
    try:
        ranking = _ranking(table)
    except ConfigError as error:
        # Without SciPy the rest of the report is still there.
        warnings.append(f"There are no ranks: {error}.")
    return StudyStatistics(reference, compared, ranking, [sentence for sentence in warnings if sentence])


def _ranking(table: StudyTable) -> Ranking | None:
    """Rank the methods over settings whose metric has a direction; None where that says nothing."""
    directions = {name: metric.shown.higher_is_better for name, metric in table.metrics.items()}
    known = {name: direction for name, direction in directions.items() if direction is not None}
    scores = {
        setting: {method: _score(table.entry(setting, method)) for method in table.study.methods}
        for setting in table.study.settings
        if setting in known
    }
    if len(scores) < 2 or len(table.study.methods) < 2:
        return None
    return rank_methods(scores, known)


def _score(entry: Entry) -> float | None:
    """Return what a method is ranked by: not a number where a seed diverged, nothing where one is missing."""
    if entry.has_diverged:
        return math.nan
    return entry.mean
