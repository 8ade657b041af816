"""The files of a study's report: tables (Markdown, CSV, JSON, LaTeX), statistics, and the forest plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.reports.figures.comparisons.forest import ForestRow, draw_forest
from flatfed.reports.figures.drawing.style import available, together
from flatfed.reports.statistics.paired import PairedDifference
from flatfed.reports.tables.latex import pivot_latex
from flatfed.reports.tables.pivot import pivot_csv, pivot_markdown
from flatfed.runs.metrics import Metric
from flatfed.runs.records.files import replace_file
from flatfed.studies.reporting.comparison_text import comparison_markdown, unit_of
from flatfed.studies.reporting.study_pivot import pivot_of
from flatfed.studies.reporting.study_statistics import StudyStatistics, statistics_of
from flatfed.studies.results import StudyTable


def write_study_report(table: StudyTable, folder: Path) -> list[Path]:
    """Write the report of a study into a folder, and return its files; the same table makes the same files.

    The forest plot is left out where fewer than two seeds can be compared, or matplotlib is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pivot, statistics = pivot_of(table), statistics_of(table)
    texts = {
        folder / "table.md": escaped(pivot_markdown(pivot)),
        folder / "table.csv": pivot_csv(pivot),
        folder / "table.json": _json(table.to_dict()),
        folder / "table.tex": pivot_latex(pivot),
        folder / "statistics.json": _json(statistics.to_dict()),
        folder / "comparison.md": escaped(comparison_markdown(table, statistics)),
    }
    for path, text in texts.items():
        # Replaced, not written to: it may be a link that somebody put there.
        replace_file(path, text.encode())
    return [*texts, *_draw(table, statistics, folder)]


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _draw(table: StudyTable, statistics: StudyStatistics, folder: Path) -> list[Path]:
    """Draw the differences that have intervals, and return the files; those of an earlier report are removed."""
    files = [folder / "forest.png", folder / "forest.pdf"]
    rows = [_forest_row(table, statistics, one) for one in statistics.compared if one.interval is not None]
    if not rows or not available():
        for file in files:
            file.unlink(missing_ok=True)
        return []
    draw_forest(rows, files, _note(statistics), table.study.title)
    return files


def _forest_row(table: StudyTable, statistics: StudyStatistics, one: PairedDifference) -> ForestRow:
    metric = table.metrics[one.setting]
    assert one.mean is not None and one.interval is not None
    mean, low, high = (metric.scale * value for value in (one.mean, one.interval.low, one.interval.high))
    x_name = f"{metric.test} {metric.label}: difference to {statistics.reference}{_unit(metric)}"
    return ForestRow(one.setting, one.method, mean, low, high, one.is_significant, x_name)


def _unit(metric: Metric) -> str:
    unit = unit_of(metric)
    return f" ({unit})" if unit else ""


def _note(statistics: StudyStatistics) -> str:
    """Say what marks and bars are, and what they cannot say."""
    pairs = sorted({len(one.differences) for one in statistics.compared if one.interval is not None})
    seeds = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    tested = sum(one.p is not None for one in statistics.compared)
    sentences = [
        f"Mean over {seeds} seeds, {together('95 %')} interval (BCa bootstrap). Significant: sign-flip test, "
        f"{together('5 %')} after Holm over {tested} comparisons.",
        *statistics.warnings,
    ]
    return " ".join(sentences)
