"""The task that the options describe: data, partition and model; and what is set by name, as in `--set rho=0.1`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.cli.options.values import file_settings, naming
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.data.partition import Partitioner
    from flatfed.experiments.tasks.recipe import TaskRecipe
    from flatfed.named_code import NamedBy


PARTITION, MODEL, DATA = "partition.", "model.", "data."
SHORT = ("alpha", "beta")
"""Parameters of the partition that have an option of their own."""


@dataclass(frozen=True)
class NamedSettings:
    """What was set by name, in the file or, going before it, on the command line.

    Args:
        methods: settings of methods, as they are written.
        partition: parameters of the partition.
        model: options of the model.
        data: options of the data.
        short: --alpha and --beta, which are in `partition` too.
        of_file: names among `methods` that only the file sets.
    """

    methods: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    short: dict[str, float]
    of_file: frozenset[str]


def gather_settings(ctx: click.Context, texts: tuple[str, ...], spellings: list[str]) -> NamedSettings:
    """Return what is set in the file and on the command line, the latter going first.

    A file may serve many methods: what it sets for others than these is left out.
    """
    from flatfed.experiments.spelling.methods import relevant

    in_file = relevant(file_settings(ctx), spellings)
    typed = typed_once(texts)
    short_in_file = _short(ctx, in_file, in_file=True)
    short_typed = _short(ctx, typed, in_file=False)
    short = _preferred(short_in_file, short_typed)
    # What comes later replaces what came before: so the command line goes before the file, name by name.
    settings = in_file | _long(short_in_file, short) | typed | _long(short_typed, short)
    return NamedSettings(
        _of_methods(settings),
        _of(PARTITION, settings),
        _of(MODEL, settings),
        _of(DATA, settings),
        short,
        # These give way to what stands in brackets behind a method.
        frozenset(in_file.keys() - typed.keys()),
    )


def typed_once(texts: tuple[str, ...]) -> dict[str, Any]:
    """Return what --set says; a name that is given twice is an error."""
    from flatfed.experiments.spelling.methods import parse_setting

    typed: dict[str, Any] = {}
    for name, value in map(parse_setting, texts):
        if name in typed:
            raise ConfigError(f"--set {name} is given twice, as {typed[name]} and as {value}; give it once")
        typed[name] = value
    return typed


def _short(ctx: click.Context, settings: dict[str, Any], in_file: bool) -> dict[str, float]:
    """Return --alpha and --beta, as far as they come from the file or from the command line; each may come once."""
    short: dict[str, float] = {}
    for name in SHORT:
        if in_file == _comes_from_file(ctx, name) and ctx.params.get(name) is not None:
            short[name] = ctx.params[name]
            _refuse_both(name, short[name], settings)
    return short


def who_names_the_model(ctx: click.Context) -> NamedBy:
    """Return whose word --model is: the user's, or that of the file of --config."""
    from flatfed.named_code import USER, NamedBy

    if not _comes_from_file(ctx, "model"):
        # Runs of a comparison that has begun may be there already, and these are files.
        return replace(USER, trusted=ctx.params["trust"])
    return NamedBy(ctx.params["config"], ctx.params["trust"])


def _comes_from_file(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def _refuse_both(name: str, value: float, settings: dict[str, Any]) -> None:
    long = f"{PARTITION}{name}"
    if long in settings:
        raise ConfigError(f"--{name} {value:g} and --set {long}={settings[long]} say the same thing; give one of them")


def _preferred(in_file: dict[str, float], typed: dict[str, float]) -> dict[str, float]:
    """Return --alpha and --beta of both; one that is typed replaces the other one of the file."""
    both = in_file | typed
    if len(both) == len(SHORT) and len(typed) == 1:
        return typed
    return both


def _long(short: dict[str, float], preferred: dict[str, float]) -> dict[str, Any]:
    """Return --alpha and --beta under their full names, as far as they are preferred."""
    return {f"{PARTITION}{name}": value for name, value in short.items() if name in preferred}


def _of(prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def _of_methods(settings: dict[str, Any]) -> dict[str, Any]:
    others = (PARTITION, MODEL, DATA)
    return {name: value for name, value in settings.items() if not name.startswith(others)}


PER_CLASS = "dirichlet-per-class"

_MEANING = {
    "alpha": "it is the total concentration of the partition dirichlet",
    "beta": f"it is the concentration per class of the partition {PER_CLASS}",
}

_PATHS: dict[str, Callable[[Path], bool]] = {
    "path": Path.exists,
    "images": Path.is_dir,
    "test": Path.is_file,
    "scaling": Path.is_file,
}
"""Settings that may name a file or a folder, and what one must be to be taken for it."""

RECIPE = ("clients", "model", "local_layers", "new_head", "partition_seed")
"""Options that are parameters of the recipe as they are."""


def make_recipe(dataset: str, options: dict[str, Any], named: NamedSettings, seed: int) -> TaskRecipe:
    """Return the task that the options describe."""
    from flatfed.experiments.tasks.recipe import TaskRecipe

    partition = _make_partition(dataset, options["partition"], named)
    return TaskRecipe(
        dataset,
        # Absolute, because a run may be resumed from another folder.
        partition=_with_absolute_paths(partition.to_dict(), ["path"]),
        seed=seed,
        data_options=_with_absolute_paths(named.data, list(_PATHS)),
        model_options=named.model,
        augment=_augmentation(options),
        data_dir=_absolute(options["data_dir"]),
        weights=_absolute(options["weights"]),
        **{name: options[name] for name in RECIPE},
    )


def _augmentation(options: dict[str, Any]) -> bool | str:
    """Return the data set's own augmentation (True), none (False), or some by name."""
    if options["no_augment"]:
        return False
    augment: bool | str = options["augment"]
    return augment


def _make_partition(dataset: str, id: str | None, named: NamedSettings) -> Partitioner:
    """Return the partition with its parameters; errors name these as they were typed."""
    from flatfed.core.configuration.config import build, parameters

    cls = _partition_class(dataset, id, named)
    _refuse_foreign(cls.id, list(parameters(cls)), named)
    words = {f"{cls.id}: {name}": _typed(name, named) for name in named.partition}
    with naming(words):
        return build(cls, named.partition)


def _typed(name: str, named: NamedSettings) -> str:
    """Return how a parameter of the partition was typed."""
    if name in named.short:
        return f"--{name}"
    return f"--set partition.{name}"


def _partition_class(dataset: str, id: str | None, named: NamedSettings) -> type[Partitioner]:
    """Return the partition that is named, or the one that is usual."""
    from flatfed.data.partition import Partitioner

    usual = _usual_partition(dataset, named)
    return Partitioner.registry.find(id or usual)


def _usual_partition(dataset: str, named: NamedSettings) -> str:
    """Return the partition where none is named: the data set's, or with --beta the one that has it."""
    from flatfed.data.catalogue import usual_partition

    own = usual_partition(dataset)
    if "beta" in named.short:
        return PER_CLASS
    return own


def _refuse_foreign(id: str, takes: list[str], named: NamedSettings) -> None:
    """Refuse --alpha or --beta where the partition has no such parameter."""
    foreign = named.short.keys() - takes
    if len(named.short) == len(SHORT) and foreign:
        raise ConfigError("--alpha (a total over the classes) and --beta (per class) are two ways to say it; give one")
    for name in foreign:
        has = f"has no {name} (it takes {_listed(takes)})"
        raise ConfigError(f"--{name}: the partition {id!r} {has}; {_MEANING[name]}")


def _listed(parameters: list[str]) -> str:
    return ", ".join(f"partition.{name}" for name in parameters) or "no parameters"


def _with_absolute_paths(settings: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Return the settings with paths that hold from any folder.

    What is not there as seen from here may lie in the data directory, or be a name: it is left alone.
    """
    absolute = dict(settings)
    for name in names:
        if _lies_here(name, settings.get(name)):
            absolute[name] = _absolute(settings[name])
    return absolute


def _lies_here(name: str, path: Any) -> bool:
    if not isinstance(path, str) or not path:
        return False
    return _PATHS[name](Path(path).expanduser())


def _absolute(path: str | None) -> str | None:
    """Return a path that holds from any folder."""
    if path is None:
        return None
    return str(Path(path).expanduser().absolute())


def refuse_contradictions(ctx: click.Context, options: dict[str, Any]) -> None:
    """Refuse options that are empty, or that say two things at once."""
    for name in ("partition", "model", "data_dir", "weights"):
        _refuse_empty(name, options[name])
    _refuse_two_augmentations(ctx, options)


def _refuse_two_augmentations(ctx: click.Context, options: dict[str, Any]) -> None:
    both = options["no_augment"] and options["augment"] is not False
    if both and come_together(ctx, "augment", "no_augment"):
        raise ConfigError("--augment and --no-augment contradict each other; give one of them")


def _refuse_empty(name: str, value: Any) -> None:
    if isinstance(value, str) and not value.strip():
        raise ConfigError(f"--{name.replace('_', '-')} is empty; leave it out, or name one")


def come_together(ctx: click.Context, first: str, second: str) -> bool:
    """Say whether two options are both typed or both in the file; else the typed one goes before the other."""
    return ctx.get_parameter_source(first) == ctx.get_parameter_source(second)
