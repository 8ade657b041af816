"""The start-up summary: what is about to be trained, in a few lines on standard error."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flatfed.experiments.compare import Comparison
    from flatfed.experiments.plan import Plan
    from flatfed.reports.setting import Lines

NARROW, WIDE = 80, 100


def tell_run(plan: Plan, out: Path, recorded: dict[str, Any] | None = None) -> None:
    """Tell of one run; `recorded` is the setting that its directory holds, where there is one."""
    from flatfed.reports.setting import run_lines

    click.echo(_text(run_lines(_config(plan, recorded)), out), err=True)


def comparison_text(comparison: Comparison, out: Path) -> str:
    """Return what a comparison tells: what is common once, and a line per method, by the first seed."""
    from flatfed.reports.setting import comparison_lines

    plans: Sequence[Plan] = comparison.plans_of_first_seed()
    return _text(comparison_lines([_config(plan) for plan in plans], comparison.seeds), out)


def _config(plan: Plan, recorded: dict[str, Any] | None = None) -> dict[str, Any]:
    from flatfed.experiments.setting import describe

    return plan.to_config() | {"setting": recorded or describe(plan)}


def _text(lines: Lines, out: Path) -> str:
    from flatfed.reports.setting import wrapped

    columns = shutil.get_terminal_size().columns if sys.stderr.isatty() else NARROW
    return "\n".join(wrapped([*lines, ("writes to", str(out))], min(columns, WIDE)))
