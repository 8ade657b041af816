"""A plan as it is resolved, for people and programs: what `--dry-run` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.experiments.comparing.comparison import Comparison


def print_plan(comparison: Comparison, out: Path, as_json: bool) -> int:
    """Print what would be trained; what cannot be played is an error as it would be then."""
    from flatfed.cli.output.results import comparison_text
    from flatfed.experiments.comparing.opened import OpenedRuns
    from flatfed.runs.directory import is_run

    if as_json:
        echo(json.dumps(comparison.to_dict(), indent=1))
        return 0
    for _, plan in comparison.runs(out):
        plan().check()
    echo(comparison_text(comparison, out, OpenedRuns(comparison.by.is_believed)))
    runs = [path for path, _ in comparison.runs(out)]
    begun = sum(is_run(path) for path in runs)
    echo(f"{len(runs)} runs, {begun} of them there already; nothing was trained")
    return 0
