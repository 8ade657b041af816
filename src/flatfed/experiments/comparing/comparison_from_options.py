"""A comparison from the options of a run: a task, settings, a sampler, monitors, checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flatfed.core.configuration.settings import About, Settings, about_settings
from flatfed.core.errors import OTHER, PARAMETER, ConfigError
from flatfed.core.round.sampling import Bernoulli, Sampler, Uniform
from flatfed.core.task.task import Task
from flatfed.engines.choice import Workers
from flatfed.experiments.comparing.comparison import Comparison, Flatness
from flatfed.experiments.planning.plan import kept_rounds
from flatfed.experiments.spelling.declared import TRAINING
from flatfed.experiments.spelling.kinds import at_most
from flatfed.experiments.spelling.methods import parse_methods, parse_watch
from flatfed.experiments.spelling.options import RunOptions, named_settings
from flatfed.experiments.spelling.outside_names import methods_with_ids, options_with_ids, read_sampler
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.experiments.tasks.recipe_from_options import recipe_from
from flatfed.flatness.monitor import Monitor
from flatfed.named_code import USER, NamedBy
from flatfed.reports.tables.extras import Extras
from flatfed.tracking.tracker import Tracker, check_trackers

PER_ROUND = 5
"""Clients per round where nothing says otherwise."""

NO_EXTRAS = Extras()


def comparison_of(
    dataset: str,
    spellings: Sequence[str],
    seeds: Sequence[int],
    options: RunOptions,
    *,
    by: NamedBy = USER,
    data_by: NamedBy = USER,
    workers: Workers = "auto",
    command: str = "",
    extras: Extras = NO_EXTRAS,
    flatness: Flatness | None = None,
) -> Comparison:
    """Return what the options compare.

    Data are read only where they decide how many clients take part per round: where the options say it, a comparison
    whose runs are finished can be made without its data. `first_task` checks it against the data.

    Args:
        dataset: the data set, by its id or import path.
        spellings: the methods as they are written.
        seeds: each method is trained with each.
        options: what describes every run.
        by: who named the model and the other parts.
        data_by: who named the data set.
        workers: where clients run.
        command: the command to be kept for reports.
        extras: what the report shows besides its table.
        flatness: what is measured of every finished run.
    """
    spellings, options = methods_with_ids(spellings, by), options_with_ids(options, by)
    named = named_settings(options, spellings)
    methods = parse_methods(spellings, named.methods, yielding=named.yielding)
    recipe = recipe_from(dataset, options, named, seeds[0], data_by)
    return Comparison(
        recipe,
        methods,
        list(seeds),
        _settings(options, seeds[0]),
        _sampler(options, recipe),
        workers,
        command,
        _monitors(options),
        flatness,
        extras,
        options["checkpoint_every"],
        kept_rounds(options["keep_checkpoints"] or ()),
        by,
        _trackers(options),
    )


def _trackers(options: RunOptions) -> tuple[Tracker, ...] | None:
    """Return where runs are sent; what cannot be used is refused before anything is trained."""
    trackers: tuple[Tracker, ...] | None = options["track"]
    if trackers:
        check_trackers(trackers, has_directory=True)
    return trackers


def first_task(comparison: Comparison) -> Task:
    """Return the task of the first seed, or refuse a sampler that cannot draw from its clients."""
    task = comparison.recipe.build(comparison.by)
    comparison.sampler.check(task.population, comparison.settings.rounds)
    return task


def flatness_from(options: RunOptions) -> Flatness:
    """Return the flatness of finished runs, over as many examples as monitors take."""
    return Flatness(at_most(options["watch_samples"]))


def _settings(options: RunOptions, seed: int) -> Settings:
    """Return the training settings."""
    about = about_settings()
    values = {name: _value(options[name], about[name]) for name in TRAINING}
    return Settings(seed=seed, **values)


def _value(value: Any, about: About) -> Any:
    """Return what an option's value means: some have a word for None, such as `full`."""
    if about.none is not None and value == about.none:
        return None
    return value


def _sampler(options: RunOptions, recipe: TaskRecipe) -> Sampler:
    """Return who takes part; the data are asked only where nothing is said."""
    if options["sampling"] is not None:
        return _written_sampler(options)
    if options["bernoulli"] is not None:
        return _bernoulli(options)
    if options["per_round"] is not None:
        return Uniform(options["per_round"])
    population = len(recipe.parts())
    return Uniform(min(PER_ROUND, population))


def _written_sampler(options: RunOptions) -> Sampler:
    for other in ("bernoulli", "per_round"):
        if options[other] is not None:
            raise ConfigError(
                f"{PARAMETER} and {OTHER} are two ways to sample; give one of them", "sampling", other=other
            )
    try:
        return read_sampler(options["sampling"])
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter="sampling") from None


def _bernoulli(options: RunOptions) -> Bernoulli:
    try:
        sampler = Bernoulli(options["bernoulli"])
    except ConfigError as error:
        # The option is called after the sampler, which has one parameter.
        raise error.about("bernoulli") from None
    if options["per_round"] is not None:
        raise ConfigError(
            f"{PARAMETER} and {OTHER} are two ways to sample; give one of them", "bernoulli", other="per_round"
        )
    return sampler


def _monitors(options: RunOptions) -> tuple[Monitor, ...]:
    """Return what is measured while it trains."""
    samples = at_most(options["watch_samples"])
    try:
        return parse_watch(options["watch"], options["watch_data"], samples)
    except ConfigError as error:
        raise ConfigError(f"{PARAMETER}: {error}", parameter="watch") from None
