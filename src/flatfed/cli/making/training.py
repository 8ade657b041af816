"""What `run` and `compare` train, as their options say, and where they write when nothing is said.

A run is a comparison of one method with one seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.making.options import run_options, who_names_the_model
from flatfed.cli.options.groups import make_extras
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.task.task import Task
    from flatfed.experiments.comparing.comparison import Comparison, Flatness
    from flatfed.experiments.spelling.options import RunOptions


def make_comparison(
    ctx: click.Context, dataset: str, spellings: list[str], seeds: list[int]
) -> tuple[Comparison, Task]:
    """Return what the options of a command compare, and the task of the first seed."""
    from flatfed.cli.output.results import command_line
    from flatfed.experiments.comparing.from_options import comparison_of, first_task

    options = run_options(ctx)
    comparison = comparison_of(
        dataset,
        spellings,
        seeds,
        options,
        by=who_names_the_model(ctx),
        workers=ctx.params["workers"],
        command=command_line(),
        extras=make_extras(ctx.params),
        flatness=_flatness(ctx, options),
    )
    return comparison, first_task(comparison)


def _flatness(ctx: click.Context, options: RunOptions) -> Flatness | None:
    """Return what --flatness measures; `run` has no such option."""
    from flatfed.experiments.comparing.from_options import flatness_from

    if not ctx.params.get("flatness"):
        return None
    return flatness_from(options)


RUNS = Path("runs")
MANY = 1_000_000


def free_directory(name: str) -> Path:
    """Return a directory in `runs/` that is not there yet."""
    # The colon of an import path has a meaning of its own in some places where paths are written.
    plain = name.replace(":", ".")
    for number in range(1, MANY):
        path = RUNS / f"{plain}-{number:03d}"
        if not path.exists():
            return path
    raise ConfigError("runs/ is full; give --out")
