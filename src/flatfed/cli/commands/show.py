"""`flatfed show`: the table of runs, also while they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flatfed.cli.options.reports import make_extras, report_options
from flatfed.core.errors import MANY, ConfigError, nearest


@click.command(short_help="Show results, also of what is still running.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
@click.option("--figure", type=click.Path(path_type=Path), default=None, help="Also draw the curves (.png or .svg).")
@click.option(
    "--plot",
    default=None,
    metavar="NAME,...",
    help="What --figure draws: columns of the history (update_norm, lr), numbers that methods watch (c, alpha, "
    "divergence), or measurements of --watch (lambda_max).  [default: the primary metric, train_loss]",
)
@report_options
def show(paths: tuple[Path, ...], as_json: bool, figure: Path | None, plot: str | None, **options: Any) -> int:
    """Show the results of run directories and comparisons; runs of one method are averaged over their seeds."""
    from flatfed.cli.output.results import print_results
    from flatfed.experiments.comparing.compare import runs_in, runs_to_do

    if figure is not None and figure.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"--figure {figure}: the name must end in .png or .svg")
    if plot is not None and figure is None:
        raise ConfigError("--plot says what --figure FILE draws; give that too")
    runs = list({run.resolve(): run for path in paths for run in runs_in(path)}.values())
    if not runs:
        raise ConfigError(f"{paths[0]} holds no run yet")
    names = [name.strip() for name in plot.split(",")] if plot else []
    _refuse_unknown(runs, names)
    print_results(runs, as_json, make_extras(options))
    for path in paths:
        missing = runs_to_do(path)
        if missing:
            click.echo(f"{path}: {missing} of its runs have not begun", err=True)
    if figure is not None:
        _draw(runs, figure, names)
    return 0


def _refuse_unknown(runs: list[Path], names: list[str]) -> None:
    from flatfed.reports.curves import drawable, undrawable
    from flatfed.reports.results.results import collect

    if not names:
        return
    results = collect(runs)
    known, others = drawable(results), undrawable(results)
    for name in names:
        if name in others and name not in known:
            listed = ", ".join(known[:MANY]) + (", ..." if len(known) > MANY else "")
            raise ConfigError(f"--plot: {name!r} holds {others[name]}, not one number a round; to draw are {listed}")
        if name not in known:
            raise ConfigError(f"--plot: {nearest(name, known, 'number in these histories')}")


def _draw(runs: list[Path], figure: Path, names: list[str]) -> None:
    from flatfed.reports.curves import draw_curves
    from flatfed.reports.results.results import collect

    try:
        draw_curves(collect(runs), [figure], names=names)
    except OSError as error:
        raise ConfigError(f"--figure {figure}: {error.strerror}") from None
    click.echo(f"figure: {figure}", err=True)
