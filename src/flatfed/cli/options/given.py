"""What the options of `run` and `compare` say, turned into a task, settings and a sampler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.cli.options.training import FILE_SETTINGS
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.configuration.settings import Settings
    from flatfed.core.round.sampling import Sampler
    from flatfed.data.partition import Partitioner
    from flatfed.experiments.tasks.recipe import TaskRecipe
    from flatfed.flatness.monitor import Monitor

PARTITION, MODEL, DATA = "partition.", "model.", "data."
SETTINGS = (
    *("rounds", "lr", "lr_decay", "local_epochs", "weight_decay", "momentum", "clip", "weighting", "dtype"),
    *("every", "last", "eval_stats", "batched", "device", "min_replies", "retries", "max_update_norm"),
)
PER_ROUND = 5
"""Clients a round where nothing says otherwise."""


@dataclass(frozen=True)
class Given:
    """What was set by name, in the file or, going before it, on the command line; `short` are --alpha and --beta."""

    methods: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    short: dict[str, float]


def gather_settings(ctx: click.Context, here: tuple[str, ...], spellings: list[str]) -> Given:
    """Return what is set in the file and on the command line, the latter going first.

    A file may serve many methods: what it sets for others than these is left out.
    """
    from flatfed.experiments.spelling.methods import relevant

    in_file: dict[str, Any] = relevant(ctx.meta.get(FILE_SETTINGS, {}), spellings)
    typed = typed_once(here)
    short_in_file, short_typed = _short(ctx, in_file, True), _short(ctx, typed, False)
    short = short_in_file | short_typed
    if set(short) == {"alpha", "beta"} and len(short_typed) == 1:  # a file's, overridden by the other spelling
        short = short_typed
    both = in_file | {f"{PARTITION}{n}": v for n, v in short_in_file.items() if n in short}
    both |= typed | {f"{PARTITION}{n}": v for n, v in short_typed.items()}
    methods = {n: v for n, v in both.items() if not n.startswith((PARTITION, MODEL, DATA))}
    return Given(methods, _of(PARTITION, both), _of(MODEL, both), _of(DATA, both), short)


def typed_once(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return what --set says; a name that is given twice is an error."""
    from flatfed.experiments.spelling.methods import parse_setting

    typed: dict[str, Any] = {}
    for name, value in map(parse_setting, settings):
        if name in typed:
            raise ConfigError(f"--set {name} is given twice, as {typed[name]} and as {value}; give it once")
        typed[name] = value
    return typed


def _short(ctx: click.Context, settings: dict[str, Any], in_file: bool) -> dict[str, float]:
    """Return --alpha and --beta, as far as they come from the file or from the command line; each may come once."""
    found: dict[str, float] = {}
    for name in ("alpha", "beta"):
        value, long = ctx.params.get(name), f"{PARTITION}{name}"
        if value is None or in_file != (ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP):
            continue
        if long in settings:
            raise ConfigError(
                f"--{name} {value:g} and --set {long}={settings[long]} say the same thing; give one of them"
            )
        found[name] = value
    return found


def _of(prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {n.removeprefix(prefix): v for n, v in settings.items() if n.startswith(prefix)}


def make_recipe(dataset: str, options: dict[str, Any], given: Given, seed: int) -> TaskRecipe:
    """Return the task that the options describe."""
    from flatfed.experiments.tasks.recipe import TaskRecipe

    partition = _make_partition(dataset, options["partition"], given)
    names = ("clients", "model", "augment", "local_parts", "data_dir", "weights", "new_head", "partition_seed")
    given_by_name = {name: options[name] for name in names}
    if options["no_augment"]:
        given_by_name["augment"] = False
    for name in ("data_dir", "weights"):
        given_by_name[name] = _absolute(given_by_name[name])
    return TaskRecipe(
        dataset,
        partition=_found_here(partition.to_dict(), "path"),
        seed=seed,
        data_options=_found_here(given.data, "path", "images", "test"),
        model_options=given.model,
        **given_by_name,
    )


def _make_partition(dataset: str, asked: str | None, given: Given) -> Partitioner:
    """Return the partition: the one asked for, that of --beta, or the data set's."""
    from flatfed.core.configuration.config import build, parameters
    from flatfed.data.catalogue import find
    from flatfed.data.partition import Partitioner

    own = find(dataset).partition
    cls = Partitioner.registry.find(asked or (PER_CLASS if "beta" in given.short else own))
    takes = parameters(cls)
    if len(given.short) > 1 and not {"alpha", "beta"} <= set(takes):
        raise ConfigError("--alpha (a total over the classes) and --beta (per class) are two ways to say it; give one")
    for name in given.short:
        if name not in takes:
            listed = ", ".join(f"partition.{n}" for n in takes) or "no parameters"
            raise ConfigError(f"--{name}: the partition {cls.id!r} has no {name} (it takes {listed}); {_INSTEAD[name]}")
    typed = "beta" if "beta" in given.short else "alpha"
    with named_as_typed(f"{cls.id}: {typed}", f"--{typed}"):
        return build(cls, given.partition)


PER_CLASS = "dirichlet-per-class"
_INSTEAD = {
    "alpha": "it is the total concentration of the partition dirichlet",
    "beta": f"it is the concentration per class of the partition {PER_CLASS}",
}


def refuse_contradictions(ctx: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that are empty, or that say two things at once."""
    for name in ("partition", "model", "data_dir", "weights"):
        if isinstance(options[name], str) and not options[name].strip():
            raise ConfigError(f"--{name.replace('_', '-')} is empty; leave it out, or name one")
    sources = ctx.get_parameter_source("augment"), ctx.get_parameter_source("no_augment")
    if options["no_augment"] and options["augment"] is not False and sources[0] == sources[1]:
        raise ConfigError("--augment and --no-augment contradict each other; give one of them")


def _found_here(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the settings with paths that hold from any folder.

    What is not there as seen from here may lie in the data directory, or be a name: it is left alone.
    """
    paths = {name: settings[name] for name in names if isinstance(settings.get(name), str) and settings[name]}
    found = {name: path for name, path in paths.items() if name == "path" and Path(path).expanduser().exists()}
    found |= {name: path for name, path in paths.items() if name == "images" and Path(path).expanduser().is_dir()}
    found |= {name: path for name, path in paths.items() if name == "test" and Path(path).expanduser().is_file()}
    return settings | {name: _absolute(path) for name, path in found.items()}


def _absolute(path: str | None) -> str | None:
    """Return a path that holds from any folder."""
    return None if path is None else str(Path(path).expanduser().absolute())


def make_settings(options: dict[str, Any], seed: int) -> Settings:
    """Return the training settings."""
    from flatfed.core.configuration.settings import Settings

    size = options["batch_size"]
    values = {name: options[name] for name in SETTINGS}
    with named_as_typed("", "--"):
        return Settings(seed=seed, batch_size=None if size == "full" else size, **values)


def make_monitors(options: dict[str, Any]) -> tuple[Monitor, ...]:
    """Return what is measured while it trains."""
    from flatfed.experiments.spelling.measurements import parse_watch

    samples = options["watch_samples"]
    try:
        return parse_watch(options["watch"], options["watch_data"], None if samples == "all" else samples)
    except ConfigError as error:
        raise ConfigError(f"--watch: {error}") from None


def make_checkpoints(options: dict[str, Any]) -> dict[str, Any]:
    """Return what a plan says about checkpoints: after every so many rounds, and which are kept."""
    from flatfed.experiments.running.plan import kept_rounds

    with named_as_typed("", "--"):
        kept = kept_rounds(options["keep_checkpoints"] or ())
    return {"checkpoint_every": options["checkpoint_every"], "keep_checkpoints": kept}


def make_sampler(ctx: click.Context, options: dict[str, Any], population: int) -> Sampler:
    """Return the sampler, checked against the number of clients."""
    from flatfed.core.round.sampling import Bernoulli, Uniform

    p = options["bernoulli"]
    with named_as_typed("bernoulli: p", "--bernoulli"):
        sampler = Uniform(options["per_round"] or min(PER_ROUND, population)) if p is None else Bernoulli(p)
    sources = ctx.get_parameter_source("per_round"), ctx.get_parameter_source("bernoulli")
    if p is not None and options["per_round"] is not None and sources[0] == sources[1]:
        raise ConfigError("--bernoulli and --per-round are two ways to sample; give one of them")
    sampler.check(population, options["rounds"])
    return sampler


@contextmanager
def named_as_typed(name: str, option: str) -> Iterator[None]:
    """Let an error speak of the option that was typed instead of the parameter behind it."""
    try:
        yield
    except ConfigError as error:
        text = str(error)
        if not text.startswith(name):
            raise
        first, _, rest = text.removeprefix(name).partition(" ")
        raise ConfigError(f"{option}{first.replace('_', '-')} {rest}") from None


def free_directory(name: str) -> Path:
    """Return a directory in `runs/` that is not there yet."""
    for number in range(1, 1_000_000):
        path = Path("runs") / f"{name}-{number:03d}"
        if not path.exists():
            return path
    raise ConfigError("runs/ is full; give --out")
