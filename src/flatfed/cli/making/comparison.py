"""What `run` and `compare` train, as their options say; a run is a comparison of one method with one seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flatfed.cli.making.named import gather_settings
from flatfed.cli.making.task import make_recipe, refuse_contradictions
from flatfed.cli.making.training import at_most, make_checkpoints, make_monitors, make_sampler, make_settings
from flatfed.cli.options.reports import make_extras

if TYPE_CHECKING:
    from flatfed.core.task.task import Task
    from flatfed.experiments.comparing.comparison import Comparison, Flatness


def make_comparison(
    ctx: click.Context, dataset: str, spellings: list[str], seeds: list[int]
) -> tuple[Comparison, Task]:
    """Return what the options of a command compare, and the task of the first seed."""
    from flatfed.cli.output.results import command_line
    from flatfed.experiments.comparing.comparison import Comparison
    from flatfed.experiments.spelling.methods import parse_methods

    options = ctx.params
    refuse_contradictions(ctx, options)
    named = gather_settings(ctx, options["settings"], spellings)
    methods = parse_methods(spellings, named.methods, yielding=named.of_file)
    recipe = make_recipe(dataset, options, named, seeds[0])
    settings = make_settings(options, seeds[0])
    # The sampler must know the number of clients, which the data may decide.
    task = recipe.build()
    comparison = Comparison(
        recipe,
        methods,
        seeds,
        settings,
        make_sampler(ctx, options, task.population),
        options["workers"],
        command_line(),
        make_monitors(options),
        _flatness(ctx),
        make_extras(options),
        **make_checkpoints(options),
    )
    return comparison, task


def _flatness(ctx: click.Context) -> Flatness | None:
    """Return what --flatness measures; `run` has no such option."""
    from flatfed.experiments.comparing.comparison import Flatness

    if not ctx.params.get("flatness"):
        return None
    return Flatness(at_most(ctx.params["watch_samples"]))
