"""Tiny published studies, and how their pages are read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from flatfed.studies.entering import recorded_study
from flatfed.studies.folder import StudyFolder
from flatfed.studies.packing.pack import pack_study
from flatfed.studies.reporting.measuring import measure_study
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small


def publish(base: Path, study: dict[str, Any], about: str) -> Path:
    """Train a study, publish it as `tiny`, and return the folder of studies."""
    running = run_here(base / "runs", **study)
    measure_study(running, lambda name, done, total: None, lambda text: None)
    folder = base / "studies" / "tiny"
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(json.dumps(small(**study)))
    (folder / "about.yaml").write_text(about)
    pack_study(RunningStudy(recorded_study(StudyFolder(base / "runs")), base / "runs"), folder / "results")
    return base / "studies"


def copied(root: Path, to: Path) -> Path:
    """Return a copy of a folder of studies, to be changed."""
    shutil.copytree(root, to)
    return to


def row(page: str, method: str) -> str:
    """Return a method's first row on a page."""
    return next(line for line in page.splitlines() if line.startswith(f"| {method} |"))


def cells(table: str, method: str) -> dict[str, str]:
    """Return a method's cells in a page's first table, by their heads."""
    heads, values = (row(table, name).strip("| ").split(" | ") for name in ("method", method))
    return dict(zip(heads, values, strict=True))
