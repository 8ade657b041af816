"""The files of a report: table (Markdown, CSV, JSON) and curves (PNG, SVG), beside the runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flatfed.reports.curves import available, draw_curves
from flatfed.reports.results import Result
from flatfed.reports.setting import recorded_settings, setting_section
from flatfed.reports.table import aggregates, as_csv, markdown, records


def write_report(results: Sequence[Result], out: Path, title: str, command: str) -> list[Path]:
    """Write the report into `out` and return its files; the curves are left out where matplotlib is missing."""
    files = {
        out / "results.csv": as_csv(results),
        out / "results.json": json.dumps(document(results), indent=1) + "\n",
    }
    figures = [out / "curves.png", out / "curves.svg"] if available() else []
    picture = f"\n![Curves: shaded is the range over seeds]({figures[0].name})\n" if figures else ""
    files[out / "report.md"] = f"# {title}\n\n    {command}\n\n{markdown(results)}{picture}\n{setting_section(results)}"
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    if figures:
        draw_curves(results, figures, title)
    return [*files, *figures]


def document(results: Sequence[Result]) -> dict[str, Any]:
    """Return the results for JSON: one record per method, one per run, and each method's setting."""
    return {"methods": aggregates(results), "runs": records(results), **recorded_settings(results)}
