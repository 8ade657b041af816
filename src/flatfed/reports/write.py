"""The files of a report: table (Markdown, CSV, JSON) and curves (PNG, PDF, SVG), beside the runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.reports.curves import draw_curves, has_curves
from flatfed.reports.figures.drawing.style import available
from flatfed.reports.figures.drawing.writing import PictureFiles
from flatfed.reports.results.result import Result
from flatfed.reports.results.setting import recorded_settings, setting_section
from flatfed.reports.tables.columns import PLAIN
from flatfed.reports.tables.extras import Extras
from flatfed.reports.tables.table import as_csv, as_json, markdown
from flatfed.runs.records.files import replace_file


def write_report(results: Sequence[Result], out: Path, title: str, command: str, extras: Extras = PLAIN) -> list[Path]:
    """Write the report into `out` and return its files.

    The curves are left out where no run has a second round: a single point is in the table, and drawing it would take
    longer than the round. They are left out where matplotlib is missing, too.
    """
    figures = PictureFiles(out).of("curves") if has_curves(results) and available() else []
    body = f"{markdown(results, extras)}{_picture(figures)}\n{setting_section(results)}"
    texts = {
        out / "results.csv": as_csv(results, extras),
        out / "results.json": json.dumps(document(results, extras), indent=1) + "\n",
        out / "report.md": escaped(f"# {title}\n\n    {command}\n\n{body}"),
    }
    for path, text in texts.items():
        # Replaced, not written to: it may be a link that somebody put there.
        replace_file(path, text.encode())
    if figures:
        draw_curves(results, figures, title)
    return [*texts, *figures]


def _picture(figures: Sequence[Path]) -> str:
    """Return the Markdown that shows the first of the figures, if there is one."""
    if not figures:
        return ""
    return f"\n![Curves: shaded is the range over seeds]({figures[0].name})\n"


def document(results: Sequence[Result], extras: Extras = PLAIN) -> dict[str, Any]:
    """Return the results for JSON: methods, runs, targets where some were asked for, and each method's setting."""
    return as_json(results, extras) | recorded_settings(results)
