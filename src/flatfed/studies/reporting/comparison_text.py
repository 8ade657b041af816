"""The comparison of a study's methods with its reference, in words and tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.reports.statistics.paired import PairedDifference
from flatfed.reports.statistics.permutation import MOST_EXACT
from flatfed.reports.statistics.ranks import Ranking, indistinct_groups
from flatfed.reports.tables.grid import NOTHING, markdown_table, rule
from flatfed.reports.tables.pivot import decimals_for, escape_markdown
from flatfed.runs.metrics import Metric
from flatfed.studies.reporting.study_statistics import StudyStatistics
from flatfed.studies.results import StudyTable

POINTS = "percentage points"
HEADS = ["setting", "method", "pairs", "difference", "95 % interval", "p", "p (Holm)", "p (Wilcoxon)"]
WORDS = 2
"""Columns of words; the others are numbers."""
EXPLAINED = (
    "Difference: mean over the seeds that both have, method minus reference. Interval: BCa bootstrap. p: two-sided, "
    f"over all changes of signs of the differences (drawn ones for more than {MOST_EXACT} pairs). Holm: corrected for "
    "all comparisons of this table. Wilcoxon: signed ranks, uncorrected. Bold: significant at 5 % after Holm."
)


def comparison_markdown(table: StudyTable, statistics: StudyStatistics) -> str:
    """Return what the statistics say, as Markdown."""
    reference = escape_markdown(statistics.reference)
    parts = [f"# Differences to {reference}", *(f"**{sentence}**" for sentence in statistics.warnings)]
    if not statistics.compared:
        parts.append("There is no other method to compare.")
    else:
        parts += [_differences(table, statistics.compared), EXPLAINED, *_remarks(statistics.compared)]
    if statistics.ranking is not None:
        parts += ["# Ranks over settings", *_ranks(statistics.ranking)]
    return "\n\n".join(parts) + "\n"


def unit_of(metric: Metric | None) -> str:
    """Return the unit of a difference: shares differ by percentage points."""
    if metric is None:
        return ""
    return POINTS if metric.shown.unit == "%" else metric.shown.unit


def _differences(table: StudyTable, compared: Sequence[PairedDifference]) -> str:
    rows = [_row(table, one) for one in compared]
    rules = [rule(words=place < WORDS) for place in range(len(HEADS))]
    units = sorted({unit_of(table.metrics.get(one.setting)) for one in compared} - {""})
    text = markdown_table(HEADS, rules, rows)
    return f"{text}\n\nUnit: {', '.join(units)}." if units else text


def _row(table: StudyTable, one: PairedDifference) -> list[str]:
    metric = table.metrics.get(one.setting)
    names = [escape_markdown(one.setting) or "all", escape_markdown(one.method), str(len(one.differences))]
    if one.mean is None or metric is None:
        return [*names, *[NOTHING] * (len(HEADS) - len(names))]
    places = decimals_for([metric.scale * one.mean], metric.shown.unit == "%")
    mean = signed(metric.scale * one.mean, places)
    interval = NOTHING
    if one.interval is not None:
        low, high = (signed(metric.scale * end, places) for end in (one.interval.low, one.interval.high))
        interval = f"{low} to {high}"
    shown = f"**{mean}**" if one.is_significant else mean
    return [*names, shown, interval, *map(_p, (one.p, one.p_holm, one.p_wilcoxon))]


def signed(value: float, places: int) -> str:
    """Return a number with its sign."""
    text = f"{value:+.{places}f}"
    # What rounds to nothing has no sign.
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def _p(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def _remarks(compared: Sequence[PairedDifference]) -> list[str]:
    lines = [
        f"- {escape_markdown(one.setting or 'all')}, {escape_markdown(one.method)}: {one.remark}"
        for one in compared
        if one.remark
    ]
    return ["\n".join(lines)] if lines else []


def _ranks(ranking: Ranking) -> list[str]:
    """Return mean ranks, best first, Friedman's test and the critical difference."""
    order = sorted(ranking.mean_ranks, key=lambda method: ranking.mean_ranks[method])
    rows = [[escape_markdown(method), f"{ranking.mean_ranks[method]:.2f}"] for method in order]
    parts = [markdown_table(["method", "mean rank"], [":--", "--:"], rows)] if rows else []
    if ranking.friedman is not None and ranking.critical_difference is not None:
        parts.append(
            f"Over {len(ranking.settings)} settings; 1 is the best. Friedman: χ² = {ranking.friedman.statistic:.2f}, "
            f"p = {_p(ranking.friedman.p)}. Nemenyi's critical difference at 5 %: {ranking.critical_difference:.2f}."
        )
        groups = [", ".join(map(escape_markdown, group)) for group in indistinct_groups(ranking)]
        if groups:
            parts.append("Not separated: " + "; ".join(groups) + ".")
    if ranking.left_out:
        listed = ", ".join(map(escape_markdown, ranking.left_out))
        parts.append(f"Left out, because a method has no value there yet: {listed}.")
    return [*parts, ranking.remark] if ranking.remark else parts
