"""What `run` and `compare` train, as their options say, and where they write when nothing is said.

A run is a comparison of one method with one seed. What is typed goes before what the file of --config says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.cli.options.groups import make_extras
from flatfed.cli.options.values import file_settings
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.declared import OPTIONS, SET
from flatfed.experiments.spelling.options import RunOptions

if TYPE_CHECKING:
    from flatfed.core.task.task import Task
    from flatfed.experiments.comparing.comparison import Comparison, Flatness
    from flatfed.named_code import NamedBy

RUNS = Path("runs")
MANY = 1_000_000
FILE = (ParameterSource.DEFAULT_MAP,)
NOT_TYPED = (*FILE, ParameterSource.DEFAULT)


def run_options(ctx: click.Context) -> RunOptions:
    """Return what is said in the file and on the command line, the latter going first; a command may lack options."""
    every = [name for name in ctx.params if name in OPTIONS]
    in_file = [name for name in every if _comes_from(ctx, name, FILE)]
    typed = [name for name in every if not _comes_from(ctx, name, NOT_TYPED)]
    shared = RunOptions.read(_values(ctx, in_file) | {SET: file_settings(ctx)})
    # A file may serve many methods; what is typed is meant for those of the command.
    own = RunOptions.read(_values(ctx, typed) | {SET: typed_once(ctx.params["settings"])}, firm=True)
    return shared.merged(own)


def _comes_from(ctx: click.Context, name: str, sources: Collection[ParameterSource]) -> bool:
    return ctx.get_parameter_source(name) in sources


def _values(ctx: click.Context, names: list[str]) -> dict[str, Any]:
    return {name: ctx.params[name] for name in names}


def typed_once(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return what --set says; a name that is given twice is an error."""
    from flatfed.experiments.spelling.methods import parse_setting

    typed: dict[str, Any] = {}
    for name, value in map(parse_setting, texts):
        if name in typed:
            raise ConfigError(f"--set {name} is given twice, as {typed[name]} and as {value}; give it once")
        typed[name] = value
    return typed


def who_names_the_model(ctx: click.Context) -> NamedBy:
    """Return whose word --model is: the user's, or that of the file of --config."""
    from flatfed.named_code import USER, NamedBy

    if not _comes_from(ctx, "model", FILE):
        # Runs of a comparison that has begun may be there already, and these are files.
        return replace(USER, trusted=ctx.params["trust"])
    return NamedBy(ctx.params["config"], ctx.params["trust"])


def make_comparison(
    ctx: click.Context, dataset: str, spellings: list[str], seeds: list[int]
) -> tuple[Comparison, Task]:
    """Return what the options of a command compare, and the task of the first seed."""
    from flatfed.cli.output.results import command_line
    from flatfed.experiments.comparing.comparison_from_options import comparison_of, first_task

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
    from flatfed.experiments.comparing.comparison_from_options import flatness_from

    if not ctx.params.get("flatness"):
        return None
    return flatness_from(options)


def free_directory(name: str) -> Path:
    """Return a directory in `runs/` that is not there yet."""
    # The colon of an import path has a meaning of its own in some places where paths are written.
    plain = name.replace(":", ".")
    for number in range(1, MANY):
        path = RUNS / f"{plain}-{number:03d}"
        if not path.exists():
            return path
    raise ConfigError("runs/ is full; give --out")
