"""What `run` and `compare` train, as their options say, and where they write when nothing is said.

A run is a comparison of one method with one seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.making.task import (
    come_together,
    gather_settings,
    make_recipe,
    refuse_contradictions,
    who_names_the_model,
)
from flatfed.cli.options.groups import make_extras
from flatfed.cli.options.values import at_most, naming, within_option
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.configuration.settings import About, Settings
    from flatfed.core.round.sampling import Sampler
    from flatfed.core.task.task import Task
    from flatfed.experiments.comparing.comparison import Comparison, Flatness
    from flatfed.flatness.monitor import Monitor


PER_ROUND = 5
"""Clients per round where nothing says otherwise."""


def make_settings(options: dict[str, Any], seed: int) -> Settings:
    """Return the training settings."""
    from flatfed.core.configuration.settings import Settings, about_settings

    values = {name: _value(options[name], about) for name, about in about_settings().items() if about.group}
    return Settings(seed=seed, **values)


def _value(value: Any, about: About) -> Any:
    """Return what an option's value means: some have a word for None, such as `full`."""
    if about.none is not None and value == about.none:
        return None
    return value


def make_sampler(ctx: click.Context, options: dict[str, Any], population: int) -> Sampler:
    """Return the sampler, checked against the number of clients."""
    sampler = _sampler(options["per_round"], options["bernoulli"], population)
    both = None not in (options["per_round"], options["bernoulli"])
    if both and come_together(ctx, "per_round", "bernoulli"):
        raise ConfigError("--bernoulli and --per-round are two ways to sample; give one of them")
    sampler.check(population, options["rounds"])
    return sampler


def _sampler(per_round: int | None, probability: float | None, population: int) -> Sampler:
    from flatfed.core.round.sampling import Bernoulli, Uniform

    if probability is None:
        return Uniform(per_round or min(PER_ROUND, population))
    with naming({"bernoulli: p": "--bernoulli"}):
        return Bernoulli(probability)


def make_monitors(options: dict[str, Any]) -> tuple[Monitor, ...]:
    """Return what is measured while it trains."""
    from flatfed.experiments.spelling.methods import parse_watch

    with within_option("--watch"):
        return parse_watch(options["watch"], options["watch_data"], at_most(options["watch_samples"]))


def make_checkpoints(options: dict[str, Any]) -> dict[str, Any]:
    """Return what a plan says about checkpoints: after every how many rounds, and which are kept."""
    from flatfed.experiments.planning.plan import kept_rounds

    kept = kept_rounds(options["keep_checkpoints"] or ())
    return {"checkpoint_every": options["checkpoint_every"], "keep_checkpoints": kept}


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
    by = who_names_the_model(ctx)
    task = recipe.build(by)
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
        by=by,
    )
    return comparison, task


def _flatness(ctx: click.Context) -> Flatness | None:
    """Return what --flatness measures; `run` has no such option."""
    from flatfed.experiments.comparing.comparison import Flatness

    if not ctx.params.get("flatness"):
        return None
    return Flatness(at_most(ctx.params["watch_samples"]))


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
