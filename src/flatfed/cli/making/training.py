"""What `run` and `compare` train, as their options say, and where they write when nothing is said.

A run is a comparison of one method with one seed. What is typed goes before what the file of --config says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.cli.options.groups import make_extras, whose
from flatfed.cli.options.values import file_settings, methods_of, recorded_in_file
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.belonging import refuse_idle, unusual
from flatfed.experiments.spelling.declared import OPTIONS, SET
from flatfed.experiments.spelling.options import RunOptions
from flatfed.named_code import USER, NamedBy

if TYPE_CHECKING:
    from flatfed.core.task.task import Task
    from flatfed.experiments.comparing.comparison import Comparison, Flatness

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
    if ctx.params.get("config") is not None:
        # Before the two are one: what the file names is not believed as what is typed.
        shared = _with_ids(shared, NamedBy(ctx.params["config"], ctx.params.get("trust", False)))
    merged = shared.merged(_with_ids(own, USER))
    _refuse_idle(ctx, shared, own, merged)
    return merged


def _refuse_idle(ctx: click.Context, shared: RunOptions, own: RunOptions, merged: RunOptions) -> None:
    """Refuse options without an effect: those typed, and those of a file that people write."""
    in_file = {} if recorded_in_file(ctx) else unusual(shared.values)
    refuse_idle(in_file | dict(own.values), merged.values)


def _with_ids(options: RunOptions, by: NamedBy) -> RunOptions:
    from flatfed.experiments.spelling.outside_names import options_with_ids

    return options_with_ids(options, by)


def methods_by_id(ctx: click.Context, typed: Sequence[str]) -> list[str]:
    """Return the methods as they are typed, or as the file names them; classes of the user's own by their ids."""
    from flatfed.experiments.spelling.outside_names import methods_with_ids
    from flatfed.outside.origins import enter_recorded

    file = NamedBy(ctx.params["config"], ctx.params["trust"]) if ctx.params["config"] else USER
    # The file may be the record of a run, which knows its parts by id.
    enter_recorded(recorded_in_file(ctx), file)
    return methods_with_ids(methods_of(ctx, typed), USER if typed else file)


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
        by=whose(ctx, "model", "metrics"),
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
