"""`flatfed compare`: several methods and seeds, one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flatfed.cli.options import (
    Whole,
    common_options,
    free_directory,
    gather_settings,
    make_recipe,
    make_sampler,
    make_settings,
)


@click.command()
@click.argument("dataset")
@click.argument("algorithms", nargs=-1, required=True, metavar="ALGORITHM...")
@click.option("--seeds", type=Whole(), default="0", show_default=True, help="Seeds, each method once with each.")
@common_options
@click.pass_context
def compare(ctx: click.Context, /, dataset: str, algorithms: tuple[str, ...], seeds: list[int], **options: Any) -> int:
    """Train each ALGORITHM on DATASET with each seed and print one table.

    ALGORITHM is an id, perhaps with a client optimiser and an average (feddyn+sam, fedasam+swa), or `all`.
    Writes results.csv, results.json, report.md and the curves beside the runs. The same command again continues
    an interrupted comparison; a method that diverges is a row of the table.
    """
    from flatfed.cli.progress import Progress
    from flatfed.experiments.compare import Comparison
    from flatfed.experiments.compare import compare as run_comparison
    from flatfed.experiments.methods import parse_methods

    settings, partition = gather_settings(ctx, options["settings"])
    methods = parse_methods(expand(algorithms), settings)
    comparison = Comparison(
        make_recipe(dataset, options, partition, seeds[0]),
        methods,
        seeds,
        make_settings(options, seeds[0]),
        make_sampler(options),
        options["workers"],
    )
    comparison.recipe.build()
    out: Path = options["out"] or free_directory(f"{dataset}-comparison")
    with Progress(options["rounds"], len(methods) * len(seeds)) as progress:
        try:
            paths = run_comparison(comparison, out, progress.start, progress.round, progress.say)
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(f"{error}\nthe whole comparison continues with: flatfed resume {out}") from None
    return finish(paths, out, comparison.title, options["as_json"])


def finish(paths: list[Path], out: Path, title: str, as_json: bool) -> int:
    """Write the report of a comparison and print its table."""
    from flatfed.cli.output import command_line, print_results
    from flatfed.reports.results import collect
    from flatfed.reports.write import write_report

    files = write_report(collect(paths), out, title, command_line())
    print_results(paths, as_json)
    click.echo(f"written to {out}: {', '.join(file.name for file in files)}", err=True)
    return 0


def expand(algorithms: tuple[str, ...]) -> list[str]:
    """Return the methods named; `all` stands for every algorithm."""
    from flatfed.core.algorithm import Algorithm

    return [id for name in algorithms for id in (sorted(Algorithm.registry) if name == "all" else [name])]
