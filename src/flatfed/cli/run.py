"""`flatfed run`: train one method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flatfed.cli.options import (
    common_options,
    free_directory,
    gather_settings,
    make_recipe,
    make_sampler,
    make_settings,
)


@click.command()
@click.argument("dataset")
@click.argument("algorithm")
@click.option("--seed", type=int, default=0, show_default=True, help="Key of partition, weights and every draw.")
@common_options
@click.pass_context
def run(ctx: click.Context, /, dataset: str, algorithm: str, seed: int, **options: Any) -> int:
    """Train ALGORITHM on DATASET and write a run directory.

    ALGORITHM is an id, perhaps with a client optimiser and an average: fedavg, feddyn+sam, fedasam+swa.
    Interrupt with Ctrl-C at any time; `flatfed resume` goes on.
    """
    from flatfed.cli.output import command_line, print_results
    from flatfed.cli.progress import Progress
    from flatfed.experiments.compare import describe_setting
    from flatfed.experiments.methods import parse_method
    from flatfed.experiments.plan import Plan
    from flatfed.experiments.play import play
    from flatfed.reports.results import collect
    from flatfed.reports.write import write_report

    settings, partition = gather_settings(ctx, options["settings"])
    method = parse_method(algorithm, settings)
    recipe = make_recipe(dataset, options, partition, seed)
    out: Path = options["out"] or free_directory(f"{dataset}-{algorithm}")
    training, sampler = make_settings(options, seed), make_sampler(options)
    plan = Plan(
        recipe.build(),
        method.algorithm,
        training,
        sampler,
        method.average,
        options["workers"],
        task_recipe=recipe.to_dict(),
    )
    with Progress(training.rounds) as progress:
        progress.start(out, 0)
        result = play(plan, out, progress.round)
    title = f"{algorithm} on {describe_setting(recipe, training, sampler)}"
    write_report(collect([out]), out, title, command_line())
    print_results([out], options["as_json"])
    if result.reason:
        click.echo(f"{result.status}: {result.reason}", err=True)
    click.echo(f"run directory: {out}", err=True)
    return 0 if result.status == "finished" else 1
