"""The files of a study's report: tables (Markdown, CSV, JSON, LaTeX), statistics, and figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.reports.figures.comparisons.beside_scatter import draw_beside
from flatfed.reports.figures.comparisons.forest import ForestRow, draw_forest
from flatfed.reports.figures.drawing.style import available, together
from flatfed.reports.statistics.paired import PairedDifference
from flatfed.reports.tables.latex import pivot_latex
from flatfed.reports.tables.pivot import pivot_csv, pivot_markdown
from flatfed.runs.metrics import Metric
from flatfed.runs.records.files import replace_file
from flatfed.studies.reporting.comparison_text import comparison_markdown, unit_of
from flatfed.studies.reporting.report_files import AGAINST, CURVES, record_files
from flatfed.studies.reporting.study_figures import both, draw_against, draw_study_curves, draw_study_ranks
from flatfed.studies.reporting.study_flatness import (
    FlatnessBlock,
    flatness_blocks,
    flatness_csv,
    flatness_latex,
    flatness_markdown,
    flatness_records,
)
from flatfed.studies.reporting.study_pivot import pivots_of
from flatfed.studies.reporting.study_published import (
    PERCENT,
    PublishedLine,
    beside_points,
    published_csv,
    published_lines,
    published_markdown,
    readable_metric,
)
from flatfed.studies.reporting.study_runs import Say, StudyResults, nobody
from flatfed.studies.reporting.study_statistics import StudyStatistics, statistics_of
from flatfed.studies.reporting.study_targets import (
    TargetLine,
    reference_of,
    target_lines,
    targets_csv,
    targets_latex,
    targets_markdown,
)
from flatfed.studies.results import StudyTable


def write_study_report(table: StudyTable, folder: Path, say: Say = nobody) -> list[Path]:
    """Write the report of a study into a folder, and return its files; the same table makes the same files.

    What an earlier report left and this one has not is removed. Figures are left out where matplotlib is missing; the
    forest plot also where fewer than two seeds can be compared. `say` hears what could not be reported.
    """
    folder.mkdir(parents=True, exist_ok=True)
    statistics, results = statistics_of(table), StudyResults(table, say)
    blocks = flatness_blocks(table, say)
    targets = target_lines(table, results, say)
    published = published_lines(table, blocks, targets)
    texts = _texts(table, statistics) | _texts_of_parts(table, blocks, targets, published)
    for name, text in texts.items():
        # Replaced, not written to: it may be a link that somebody put there.
        replace_file(folder / name, text.encode())
    files = [folder / name for name in texts]
    if available():
        files += _draw(table, statistics, folder)
        files += draw_study_ranks(statistics.ranking, both(folder / "ranks"), table.study.title)
        files += _draw_published(published, folder)
        files += _draw_folders(table, results, blocks, folder, say)
    return [*files, record_files(folder, files)]


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _texts(table: StudyTable, statistics: StudyStatistics) -> dict[str, str]:
    """Return the texts that every study has, by the file's name."""
    pivots = pivots_of(table)
    return {
        "table.md": escaped("\n".join(map(pivot_markdown, pivots.values()))),
        **{f"{name}.csv": pivot_csv(pivot) for name, pivot in pivots.items()},
        "table.json": _json(table.to_dict()),
        "table.tex": "\n".join(map(pivot_latex, pivots.values())),
        "statistics.json": _json(statistics.to_dict()),
        "comparison.md": escaped(comparison_markdown(table, statistics)),
    }


def _texts_of_parts(
    table: StudyTable, blocks: list[FlatnessBlock], targets: list[TargetLine], published: list[PublishedLine]
) -> dict[str, str]:
    """Return the texts that a study asks for."""
    texts: dict[str, str] = {}
    if targets:
        reference = reference_of(table)
        texts["targets.md"] = escaped(targets_markdown(targets, reference))
        texts["targets.csv"] = targets_csv(targets)
        texts["targets.json"] = _json([line.to_dict() for line in targets])
        texts["targets.tex"] = targets_latex(targets, reference)
    if blocks:
        texts["flatness.md"] = escaped(flatness_markdown(table, blocks))
        texts["flatness.csv"] = flatness_csv(table, blocks)
        texts["flatness.json"] = _json(flatness_records(table, blocks))
        texts["flatness.tex"] = flatness_latex(table, blocks)
    if table.study.report.published:
        texts["published.md"] = escaped(published_markdown(published, table.study.report.published))
        texts["published.csv"] = published_csv(published)
        texts["published.json"] = _json([line.to_dict() for line in published])
    return texts


def _draw_published(lines: list[PublishedLine], folder: Path) -> list[Path]:
    """Draw each metric's values against the published ones; the first in per cent has the plain name."""
    files: list[Path] = []
    for metric, points in beside_points(lines).items():
        own = both(folder / "published")
        if not metric.endswith(PERCENT) or own[0] in files:
            own = both(folder / f"published-{metric.replace('_', '-')}")
        draw_beside(points, own, readable_metric(metric))
        files += own
    return files


def _draw_folders(
    table: StudyTable, results: StudyResults, blocks: list[FlatnessBlock], folder: Path, say: Say
) -> list[Path]:
    """Draw the figures of which there are many, each kind in a folder of its own."""
    files = draw_study_curves(table, results, folder / CURVES, say)
    if table.study.report.against:
        files += draw_against(table, blocks, folder / AGAINST, table.study.report.against, say)
    return files


def _draw(table: StudyTable, statistics: StudyStatistics, folder: Path) -> list[Path]:
    """Draw the differences that have intervals, and return the files."""
    files = both(folder / "forest")
    rows = [_forest_row(table, statistics, one) for one in statistics.compared if one.interval is not None]
    if not rows:
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
