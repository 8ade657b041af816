"""`flatfed show`: the table of runs, also while they run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import GroupedCommand, json_option, make_extras, option, report_options
from flatfed.cli.output.files import refuse_other_pictures, tell_figure, written_for
from flatfed.cli.output.streams import echo
from flatfed.core.errors import MANY, ConfigError, nearest

if TYPE_CHECKING:
    from flatfed.reports.results.result import Result


@click.command(cls=GroupedCommand, short_help="Show results, also of what is still running.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@json_option
@option("--figure", "Also draw the curves (.png and its .pdf, .svg or .pdf).", click.Path(path_type=Path))
@option(
    "--plot",
    "What --figure draws: columns of the history (update_norm, lr), numbers that methods watch (c, alpha, "
    "divergence), or measurements of --watch (lambda_max).  [default: the primary metric, train_loss]",
    metavar="NAME,...",
)
@report_options
@option("--wide", "Show all columns, in several tables where one is too wide.", is_flag=True, group="output")
@option("--published", "Also show what papers published for the same setting.", is_flag=True, group="output")
def show(
    paths: tuple[Path, ...],
    as_json: bool,
    figure: Path | None,
    plot: str | None,
    published: bool,
    wide: bool,
    **options: Any,
) -> int:
    """Show the results of run directories and comparisons; runs of one method are averaged over their seeds."""
    from flatfed.cli.output.results import print_results, read_results
    from flatfed.experiments.comparing.comparison import planned_runs

    refuse_other_pictures(figure)
    names = _names(plot, figure)
    planned = [(path, planned_runs(path)) for path in paths]
    results = read_results(_begun(planned))
    _refuse_unknown(results, names)
    print_results(results, as_json, make_extras(options), published, wide)
    _tell_missing(planned)
    if figure is not None:
        _draw(results, figure, names)
    return 0


Planned = Sequence[tuple[Path, list[Path]]]
"""Paths that were named, each with the runs that it stands for, begun or not."""


def _begun(planned: Planned) -> list[Path]:
    """Return the runs that have begun, each once."""
    from flatfed.runs.directory import is_run

    every = chain.from_iterable(runs for _, runs in planned)
    # Resolved, because a comparison and one of its runs may both be named.
    runs = {run.resolve(): run for run in every if is_run(run)}
    if not runs:
        raise ConfigError(f"{planned[0][0]} holds no run yet")
    return list(runs.values())


def _names(plot: str | None, figure: Path | None) -> list[str]:
    """Return what is to be drawn; empty for what is usual."""
    if not plot:
        return []
    if figure is None:
        raise ConfigError("--plot says what --figure FILE draws; give that too")
    return [name.strip() for name in plot.split(",")]


def _tell_missing(planned: Planned) -> None:
    """Say how many runs of a comparison are not in the table yet."""
    from flatfed.runs.directory import is_run

    for path, runs in planned:
        missing = sum(not is_run(run) for run in runs)
        if missing:
            echo(f"{path}: {missing} of its runs have not begun", err=True)


def _refuse_unknown(results: list[Result], names: list[str]) -> None:
    """Refuse names for --plot that no history holds, or that are not numbers."""
    from flatfed.reports.curves import drawable, undrawable

    if not names:
        return
    known, others = drawable(results), undrawable(results)
    for name in names:
        if name not in known:
            raise ConfigError(f"--plot: {_not_drawable(name, known, others)}")


def _not_drawable(name: str, known: Sequence[str], others: dict[str, str]) -> str:
    if name not in others:
        return nearest(name, known, "number in these histories")
    listed = ", ".join(known[:MANY])
    if len(known) > MANY:
        listed += ", ..."
    return f"{name!r} holds {others[name]}, not one number per round; to draw are {listed}"


def _draw(results: list[Result], figure: Path, names: list[str]) -> None:
    from flatfed.reports.curves import draw_curves
    from flatfed.reports.figures.drawing.writing import named_files

    files = named_files(figure)
    with written_for("--figure", figure):
        draw_curves(results, files, names=names)
    tell_figure(files)
