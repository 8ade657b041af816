"""The recipe of a task from the options of a run: data, partition, model, augmentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flatfed.core.configuration.config import build, parameters
from flatfed.core.errors import OTHER, PARAMETER, ConfigError
from flatfed.data.catalogue import find, usual_partition
from flatfed.data.partition import Partitioner
from flatfed.experiments.spelling.options import PARTITION, SHORT, NamedSettings, RunOptions
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.models.hub import PREFIX, is_hub_model, place_of_model
from flatfed.named_code import USER, NamedBy

TOKENIZER = "tokenizer"
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
    "preprocessing": Path.exists,
    "tokenizer": Path.is_dir,
}
"""Settings that may name a file or a folder, and what one must be to be taken for it."""

RECIPE = ("clients", "local_layers", "new_head", "partition_seed", "validation", "validation_split", "metrics")
"""Options that are parameters of the recipe as they are."""


def recipe_from(dataset: str, options: RunOptions, named: NamedSettings, seed: int, by: NamedBy = USER) -> TaskRecipe:
    """Return the task that the options describe; `by` says who named the data set."""
    partition = _make_partition(dataset, options["partition"], named)
    return TaskRecipe(
        dataset,
        model=_model(options["model"]),
        # Absolute, because a run may be resumed from another folder.
        partition=_with_absolute_paths(partition.to_dict(), ["path"]),
        seed=seed,
        data_options=_with_tokenizer(dataset, options["model"], _with_absolute_paths(named.data, list(_PATHS)), by),
        model_options=named.model,
        augment=_augmentation(options),
        data_dir=_absolute(options["data_dir"]),
        weights=_absolute(options["weights"]),
        by=by,
        **{name: options[name] for name in RECIPE},
    )


def _model(name: str | None) -> str | None:
    """Return the model as it is recorded: the folder of `hf:FOLDER` holds from any other."""
    if name is None or not is_hub_model(name):
        return name
    folder = Path(place_of_model(name)).expanduser()
    return f"{PREFIX}{folder.absolute()}" if folder.is_dir() else name


def _with_tokenizer(dataset: str, model: str | None, data: dict[str, Any], by: NamedBy) -> dict[str, Any]:
    """Return the options of texts with the tokenizer of the model's folder, unless another is named."""
    recorded = _model(model)
    if recorded is None or not is_hub_model(recorded) or TOKENIZER in data:
        return data
    if TOKENIZER not in find(dataset, by).with_defaults({}):
        return data
    return data | {TOKENIZER: place_of_model(recorded)}


def _augmentation(options: RunOptions) -> bool | str:
    """Return the data set's own augmentation (True), none (False), or some by name."""
    if options["no_augment"]:
        return False
    augment: bool | str = options["augment"]
    return augment


def _make_partition(dataset: str, id: str | None, named: NamedSettings) -> Partitioner:
    """Return the partition with its parameters; errors name these as they were given."""
    cls = _partition_class(dataset, id, named)
    _refuse_foreign(cls.id, list(parameters(cls)), named)
    try:
        return build(cls, named.partition)
    except ConfigError as error:
        raise _about_option(error, cls.id, named) from None


def _about_option(error: ConfigError, id: str, named: NamedSettings) -> ConfigError:
    """Return an error about a parameter of the partition as one about the option that holds it."""
    for name in named.partition:
        if error.parameter == f"{id}: {name}":
            return error.about(_option(name, named))
    return error


def _option(name: str, named: NamedSettings) -> str:
    """Return how a parameter of the partition was given: by an option of its own, or by its full name."""
    if name in named.short:
        return name
    return f"{PARTITION}{name}"


def _partition_class(dataset: str, id: str | None, named: NamedSettings) -> type[Partitioner]:
    """Return the partition that is named, or the one that is usual."""
    usual = _usual_partition(dataset, named)
    return Partitioner.registry.find(id or usual)


def _usual_partition(dataset: str, named: NamedSettings) -> str:
    """Return the partition where none is named: the data set's, or with beta the one that has it."""
    own = usual_partition(dataset, named.data)
    if "beta" in named.short:
        return PER_CLASS
    return own


def _refuse_foreign(id: str, takes: list[str], named: NamedSettings) -> None:
    """Refuse alpha or beta where the partition has no such parameter."""
    foreign = named.short.keys() - takes
    if len(named.short) == len(SHORT) and foreign:
        raise ConfigError(
            f"{PARAMETER} (a total over the classes) and {OTHER} (per class) are two ways to say it; give one",
            parameter="alpha",
            other="beta",
        )
    for name in foreign:
        has = f"has no {name} (it takes {_listed(takes)})"
        raise ConfigError(f"{PARAMETER}: the partition {id!r} {has}; {_MEANING[name]}", parameter=name)


def _listed(parameters: list[str]) -> str:
    return ", ".join(f"{PARTITION}{name}" for name in parameters) or "no parameters"


def _with_absolute_paths(settings: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
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
