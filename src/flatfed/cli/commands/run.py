"""`flatfed run`: train one method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from flatfed.cli.options.training import common_options
from flatfed.cli.options.values import Whole
from flatfed.core.errors import ConfigError


@click.command(short_help="Train one method.")
@click.argument("dataset")
@click.argument("algorithm")
@click.option(
    "--seed", type=Whole(0), default=0, show_default=True, help="Random seed: partition, weights and every draw."
)
@common_options
@click.pass_context
def run(ctx: click.Context, /, dataset: str, algorithm: str, seed: int, **options: Any) -> int:
    """Train ALGORITHM on DATASET and write a run directory.

    ALGORITHM is an id, perhaps with a client optimiser and an average: fedavg, feddyn+sam, fedasam+swa. `centralised`
    (centralised+sam, ...) trains on all clients' examples in one place: a round is --local-epochs passes over all of
    them, as much as N/m rounds of a method that asks m of N clients.
    Interrupt with Ctrl-C at any time; `flatfed resume` goes on.
    """
    if algorithm == "all":
        raise ConfigError("'all' methods are for `flatfed compare`; name one")
    from flatfed.cli.output.progress import Progress
    from flatfed.cli.output.results import command_line, finish_run
    from flatfed.cli.output.summary import run_text
    from flatfed.experiments.comparing.compare import describe_setting
    from flatfed.experiments.running.plan import Plan
    from flatfed.experiments.running.play import play
    from flatfed.experiments.spelling.methods import parse_methods
    from flatfed.runs.directory import refuse_taken

    refuse_contradictions(ctx, options)
    given = gather_settings(ctx, options["settings"], [algorithm])
    [method] = parse_methods([algorithm], given.methods)
    recipe = make_recipe(dataset, options, given, seed)
    settings = make_settings(options, seed)
    out: Path = options["out"] or free_directory(f"{dataset}-{algorithm}")
    refuse_taken(out)
    task, average, workers = recipe.build(), method.average, options["workers"]
    sampler = make_sampler(ctx, options, task.population)
    watch, described = make_monitors(options), recipe.resolved(task.population).to_dict()
    plan = Plan(
        task,
        method.algorithm,
        settings,
        sampler,
        average,
        workers,
        task_recipe=described,
        watch=watch,
        **make_checkpoints(options),
    )
    plan.check()
    title = f"{algorithm} on {describe_setting(recipe, settings, sampler, method.algorithm.pooled)}"
    with Progress(settings.rounds) as progress:
        progress.start(out, 0)
        about = {"title": title, "command": command_line()}
        result = play(plan, out, progress.round, about, lambda config: progress.say(run_text(config, out)))
    return finish_run(result, out, options["as_json"])
