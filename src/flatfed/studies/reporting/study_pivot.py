"""The table of a study as a pivot: methods x settings, in the units that are printed."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import replace

from flatfed.reports.tables.pivot import Pivot, PivotCell, decimals_for
from flatfed.studies.results import Entry, StudyTable

WHEN = {"last": "mean over the last rounds", "final": "last round", "best": "best round (optimistic)"}


def pivots_of(table: StudyTable) -> dict[str, Pivot]:
    """Return the tables of all metrics that are reported, by what their files are called."""
    further = {f"table-{_column(own)}": own for own in table.further if own.metrics}
    return {"table": pivot_of(table)} | {name: _further_pivot(name, own) for name, own in further.items()}


def _column(table: StudyTable) -> str:
    return next(iter(table.metrics.values())).column


def _further_pivot(name: str, table: StudyTable) -> Pivot:
    """Return the table of a metric that is not the first, with a caption and a label of its own."""
    pivot = pivot_of(table)
    title = next(iter(table.metrics.values())).title
    return replace(pivot, caption=f"{pivot.caption}: {title}", label=f"{pivot.label}-{name.removeprefix('table-')}")


def pivot_of(table: StudyTable) -> Pivot:
    """Return the table of one metric, ready for LaTeX, Markdown and CSV."""
    study = table.study
    settings = list(dict.fromkeys(setting for setting, _ in table.entries))
    return Pivot(
        rows=list(study.methods),
        columns=settings,
        cells={(entry.variant, entry.setting): _cell(table, entry) for entry in table.entries.values()},
        caption=study.title or "Methods and settings",
        note=note_of(table),
        label=f"tab:{_slug(study.title) or 'study'}",
        decimals={setting: _decimals(table, setting) for setting in settings},
    )


def note_of(table: StudyTable) -> str:
    """Say what the numbers are: which metric, when, over which seeds, and how parameters were chosen."""
    study = table.study
    when = WHEN.get(study.report.accuracy, f"after {study.report.accuracy}")
    sentences = [f"{_metrics(table)}; {when}; {_seeds(study.seeds)}."]
    if any(map(study.is_searched, study.methods)):
        sentences.append(study.select.sentence)
    return " ".join(sentences)


def _metrics(table: StudyTable) -> str:
    """Return the metric, or those of each setting where they differ."""
    titles = {setting: metric.title for setting, metric in table.metrics.items()}
    different = list(dict.fromkeys(titles.values()))
    if not different:
        return "Nothing measured yet"
    if len(different) == 1:
        return _capital(different[0])
    return _capital("; ".join(f"{setting}: {title}" for setting, title in titles.items()))


def _seeds(seeds: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, seeds))
    if len(seeds) == 1:
        return f"seed {listed}"
    return f"mean ± sample standard deviation over seeds {listed}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _cell(table: StudyTable, entry: Entry) -> PivotCell:
    metric = table.metrics.get(entry.setting)
    if entry.mean is None or metric is None:
        return PivotCell(has_diverged=entry.has_diverged, remark=_remark(entry))
    deviation = None if entry.spread is None else metric.scale * entry.spread
    return PivotCell(metric.scale * entry.mean, deviation, entry.best, entry.second)


def _remark(entry: Entry) -> str:
    """Return why there is no mean."""
    if entry.has_diverged:
        return ""
    states = Counter(state.partition(":")[0] for state in entry.ended.values())
    if "failed" in states:
        return "failed"
    if set(states) == {"not measured"}:
        return "not measured"
    return f"{len(entry.values)} of {len(entry.values) + len(entry.ended)} seeds"


def _decimals(table: StudyTable, setting: str) -> int:
    metric = table.metrics.get(setting)
    entries = [entry for entry in table.entries.values() if entry.setting == setting]
    means = [entry.mean for entry in entries if entry.mean is not None]
    return decimals_for(means, is_percent=metric is None or metric.shown.unit == "%")


def _slug(title: str) -> str:
    """Return a title as a label: plain letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")
