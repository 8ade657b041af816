"""`flatfed compare`: several methods and seeds, one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.given import (
    free_directory,
    gather_settings,
    make_checkpoints,
    make_monitors,
    make_recipe,
    make_sampler,
    make_settings,
    refuse_contradictions,
)
from flatfed.cli.options.reports import make_extras, refuse_unevaluated, report_options
from flatfed.cli.options.training import common_options
from flatfed.cli.options.values import Seeds
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.comparing.compare import Comparison, Flatness


@click.command(short_help="Train several methods and seeds, print one table.")
@click.argument("dataset")
@click.argument("algorithms", nargs=-1, required=True, metavar="ALGORITHM...")
@click.option("--seeds", type=Seeds(), default="0", show_default=True, help="Seeds, each method once with each.")
@click.option(
    "--flatness",
    is_flag=True,
    help="Measure the flatness of every finished run (λmax, λmax/λ5, LPF) over --watch-samples training examples and "
    "show it in the table.",
)
@report_options
@common_options
@click.pass_context
def compare(
    ctx: click.Context, /, dataset: str, algorithms: tuple[str, ...], seeds: list[int], flatness: bool, **options: Any
) -> int:
    """Train each ALGORITHM on DATASET with each seed and print one table.

    ALGORITHM is an id, perhaps with a client optimiser and an average (feddyn+sam, fedasam+swa), or `all`. The baseline
    `centralised` (centralised+sam, ...) passes over all examples in each of its rounds, whatever --per-round says.
    Writes results.csv, results.json, report.md and the curves beside the runs. The same command again continues
    an interrupted comparison; a method that diverges is a row of the table.
    """
    from flatfed.cli.output.results import command_line
    from flatfed.experiments.comparing.compare import Comparison, Flatness
    from flatfed.experiments.spelling.methods import parse_methods

    refuse_contradictions(ctx, options)
    spellings = expand(algorithms)
    given = gather_settings(ctx, options["settings"], spellings)
    recipe, methods = make_recipe(dataset, options, given, seeds[0]), parse_methods(spellings, given.methods)
    settings = make_settings(options, seeds[0])
    comparison = Comparison(
        recipe,
        methods,
        seeds,
        settings,
        make_sampler(ctx, options, recipe.build().population),
        options["workers"],
        command_line(),
        make_monitors(options),
        Flatness(None if options["watch_samples"] == "all" else options["watch_samples"]) if flatness else None,
        make_extras(options),
        **make_checkpoints(options),
    )
    refuse_unevaluated(comparison.extras.at, settings)
    comparison.check_extras()
    out: Path = options["out"] or free_directory(f"{dataset}-comparison")
    return run_and_report(comparison, out, options["as_json"])


def run_and_report(comparison: Comparison, out: Path, as_json: bool) -> int:
    """Run what is left of a comparison, write its report and print its table."""
    from flatfed.cli.output.progress import Progress
    from flatfed.cli.output.results import print_results
    from flatfed.cli.output.summary import comparison_text
    from flatfed.experiments.comparing.compare import compare as run_comparison
    from flatfed.reports.results.results import collect
    from flatfed.reports.write import write_report

    with Progress(comparison.settings.rounds, len(comparison.methods) * len(comparison.seeds)) as progress:

        def begin() -> None:
            progress.say(comparison_text(comparison, out))

        try:
            paths = run_comparison(comparison, out, progress.start, progress.round, progress.say, begin)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; saved. Continue the comparison with: flatfed resume {out}") from None
    if comparison.flatness is not None:
        _measure(comparison.flatness, paths, comparison.workers)
    files = write_report(collect(paths), out, comparison.title, comparison.command, comparison.extras)
    print_results(paths, as_json, comparison.extras)
    click.echo(f"written to {out}: {', '.join(file.name for file in files)}", err=True)
    return 0


def _measure(flatness: Flatness, paths: list[Path], workers: int | str) -> None:
    """Measure the runs that came to their end; what was measured before is not measured again."""
    from flatfed.cli.output.progress import Steps
    from flatfed.experiments.comparing.compare import measure_flatness

    with Steps("runs", at_once=False) as progress:
        try:
            measure_flatness(flatness, paths, workers, progress.show, progress.say)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted while measuring; the same command again goes on") from None


def expand(algorithms: tuple[str, ...]) -> list[str]:
    """Return the methods named; `all` stands for every algorithm."""
    from flatfed.algorithms import Algorithm

    numbers = [name for name in algorithms if name.isdigit()]
    if numbers:
        raise ConfigError(f"{numbers[0]} is not an algorithm; seeds have commas between them: --seeds 0,1,2")
    return [id for name in algorithms for id in (sorted(Algorithm.registry) if name == "all" else [name])]
