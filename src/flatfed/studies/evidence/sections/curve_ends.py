"""Curves of a study beside the end points that a paper prints of longer training: what a page has of it."""

from __future__ import annotations

from collections.abc import Iterator

from flatfed.published.conditions import rounds_at
from flatfed.reports.figures.comparisons.printed_ends import EndPoint
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.beside_papers import printed_of
from flatfed.studies.evidence.sections.picture_files import PICTURES, ends_picture_name


def ends_part(study: PublishedStudy, setting: str, paper: str) -> Iterator[str]:
    """Yield the picture of a setting's curves with the paper's end points, where the study is to show them."""
    if printed_ends(study, setting, paper):
        file = PICTURES / ends_picture_name(study, setting, paper)
        yield f"![Accuracy over rounds beside the paper's end points]({file})"


def printed_ends(study: PublishedStudy, setting: str, paper: str) -> list[EndPoint]:
    """Return what a paper prints of a setting's methods that have a run; nothing unless the study is to show it."""
    if not study.about.draws_printed:
        return []
    methods = [result.method for result in study.results_in(setting)]
    return [end for method in methods for end in _of_method(study, setting, method, paper)]


def _of_method(study: PublishedStudy, setting: str, method: str, paper: str) -> Iterator[EndPoint]:
    metric, mean = study.table.metrics.get(setting), study.table.entry(setting, method).mean
    if metric is None or mean is None:
        return
    for value in printed_of(study, setting, method, paper):
        rounds = rounds_at(value)
        if value.value is not None and rounds is not None:
            yield EndPoint(method, rounds, value.value, metric.scale * mean)
