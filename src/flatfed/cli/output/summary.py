"""The start-up summary: what is about to be trained, in a few lines on standard error."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flatfed.experiments.comparing.comparison import Comparison
    from flatfed.experiments.planning.plan import Plan
    from flatfed.reports.results.setting import Lines

NARROW, WIDE = 80, 100


def run_text(config: dict[str, Any], out: Path) -> str:
    """Return what a run tells, from its record."""
    from flatfed.reports.results.setting import run_lines

    return _text(run_lines(config), out)


def resumed_config(plan: Plan, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a run that goes on, perhaps for more rounds; older ones lack the setting."""
    if "setting" in recorded:
        return recorded | plan.to_config()
    return recorded | _config(plan)


def comparison_text(comparison: Comparison, out: Path) -> str:
    """Return what a comparison tells: what is common once, and a line per method, by the first seed."""
    from flatfed.reports.results.setting import comparison_lines

    return _text(comparison_lines(list(_configs(comparison, out)), comparison.seeds), out)


def _configs(comparison: Comparison, out: Path) -> Iterator[dict[str, Any]]:
    """Yield each method's configuration: as recorded, where its run has begun, which may need no data any more."""
    from flatfed.experiments.comparing.comparison import run_path

    plan: Plan | None = None
    for method in comparison.methods:
        recorded = _recorded(run_path(out, method.spelling, comparison.seeds[0]))
        if recorded is not None:
            yield recorded
            continue
        if plan is None:
            plan = comparison.plan_of(method)  # once: the task is the same for all
        yield _config(replace(plan, algorithm=method.algorithm, average=method.average))


def _recorded(path: Path) -> dict[str, Any] | None:
    from flatfed.core.errors import FlatfedError
    from flatfed.runs.directory import RunDirectory

    try:
        return RunDirectory.open(path).config
    except FlatfedError:  # not begun, or not to be read: the comparison will say so
        return None


def _config(plan: Plan) -> dict[str, Any]:
    from flatfed.experiments.planning.setting import describe

    return plan.to_config() | {"setting": describe(plan)}


def _text(lines: Lines, out: Path) -> str:
    from flatfed.reports.results.setting import wrapped

    # The summary goes to standard error, which may be a terminal where standard output is none.
    columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else NARROW
    return "\n".join(wrapped([*lines, ("writes to", str(out))], min(columns, WIDE)))
