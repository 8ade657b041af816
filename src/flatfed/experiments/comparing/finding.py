"""Finding what there is: run directories below a folder, and a line on each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.metrics import metrics_of, primary_of


def runs_below(folder: Path) -> list[Path]:
    """Return the run directories below a folder, in the order of their paths; links are not followed."""
    return sorted(_walk(folder))


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, _ in os.walk(folder):
        # In place, which is how `os.walk` learns what to leave out.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        path = Path(place)
        if is_run(path):
            folders.clear()  # a run holds no other
            yield path


def line_of(path: Path) -> dict[str, Any]:
    """Return what is known of a run, ready for JSON; of one that cannot be read, why."""
    try:
        directory = RunDirectory.open(path)
        config, status = directory.config, directory.status()
        summary = directory.summary()
        rows = list(directory.recorded.rows)
    except FlatfedError as error:
        return {"run": str(path), "status": "unreadable", "reason": str(error)}
    metric = primary_of(metrics_of(rows, config), config)
    task = config["task"]
    return {
        "run": str(path),
        "method": config["method"],
        "dataset": task.get("dataset", task.get("name", "")),
        "seed": config["settings"]["seed"],
        "rounds": len(rows),
        "of": config["settings"]["rounds"],
        "status": status["status"],
        "reason": status["reason"],
        "metric": metric.title,
        "value": summary.get(f"{metric.stem}_last_mean"),
        "scale": metric.scale,
    }
