"""What makes two runs seeds of one thing: the method and the setting, however a record wrote them.

A record may be older than a parameter (its default is meant), spell a value by an alias, or hold addresses of a process
that is gone. So every part is read through the class that it names and compared as that writes it today; what cannot be
read so, such as a method that is not imported here, is compared as it stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from flatfed.algorithms import Algorithm, Average
from flatfed.core.configuration.config import Registry, build
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import FlatfedError
from flatfed.core.round.sampling import Sampler
from flatfed.data.catalogue import find
from flatfed.data.partition import Partitioner
from flatfed.models.catalogue import with_defaults
from flatfed.runs.described.tasks import without_addresses

Values = dict[str, Any]

UNKNOWN: Final = "?"
"""What a record does not say and could be anything: it agrees with whatever the others say."""

INTERNAL = "task.description"
"""A hash of what decides a task from Python beside its name, clients and network: compared, never shown."""

SIZE = "task.parameters"
"""The number of parameters, which a network from Python is known by."""

ELSEWHERE = {"seed", "data_dir", "partition_sha256", "reason"}
"""What a recipe says that is no part of the setting: the seed, what follows from it, and where files lie."""

DECISIVE = ("loss", "augment", "prepare", "joint", "local")
"""What decides a task from Python beside its data and its network."""

FORMER_MODELS = {
    **dict.fromkeys(("digits",), "cnn-small"),
    **dict.fromkeys(("mnist", "fashion-mnist", "mnist-writers", "cifar10", "cifar100"), "cnn"),
    **dict.fromkeys(("hugging-face", "client-csv", "image-folder"), "cnn"),
    **dict.fromkeys(("officehome", "pacs"), "resnet18-gn"),
    **dict.fromkeys(("dbpedia14", "texts"), "textcnn"),
    **dict.fromkeys(("camvid", "cityscapes", "idda"), "bisenetv2"),
    "landmarks-user-160k": "mobilenetv2-gn",
}
"""What a network that is not named was, while records held nothing but what had been asked for."""


def identity(config: Values) -> Values:
    """Return what decides a run's results besides its seed, flat, with dotted names; None and nothing are the same."""
    settings = {name: value for name, value in _settings(config["settings"]).items() if name != "seed"}
    parts = {
        "algorithm": _canonical(Algorithm.registry, config["algorithm"]),
        "average": _canonical(Average.registry, config["average"]),
        "sampler": _canonical(Sampler.registry, config["sampler"]),
        "settings": settings,
        "task": _task(config),
    }
    return {name: value for name, value in _flat(parts).items() if value is not None}


def agree(one: Values, other: Values) -> bool:
    """Say whether two identities are the same as far as both are known."""
    names = {*one, *other}
    return all(one.get(n) == other.get(n) or UNKNOWN in (one.get(n), other.get(n)) for n in names)


def _canonical(registry: Registry[Any], written: Values | None) -> Values | None:
    """Return a configuration as its class writes it today, or as it stands where that cannot be."""
    return written and _or_as_written(lambda: registry.from_dict(written).to_dict(), written)


def _settings(written: Values) -> Values:
    """Return the training settings; runs from before `batched` went client by client."""
    return _or_as_written(lambda: build(Settings, {"batched": False} | written).to_dict() | {"id": None}, written)


def _or_as_written(read: Callable[[], Values], written: Values) -> Values:
    try:
        return read()
    except (FlatfedError, TypeError, KeyError):
        return written


# Tasks.


def _task(config: Values) -> Values:
    recipe: Values = config["task"]
    return _catalogue(config) if recipe.get("kind") == "catalogue" else _from_python(config)


def _catalogue(config: Values) -> Values:
    """Return a task of the catalogue with every option, given or not."""
    recipe: Values = {name: value for name, value in config["task"].items() if name not in ELSEWHERE}
    dataset, model = str(recipe.get("dataset")), recipe.get("model")
    partition = _canonical(Partitioner.registry, recipe.get("partition"))
    named, setting = model or FORMER_MODELS.get(dataset, UNKNOWN), config.get("setting", {})
    weights, augment = recipe.get("weights"), recipe.get("augment", True)
    return recipe | {
        "clients": recipe.get("clients") or _clients(partition),
        "partition": partition,
        "model": named,
        "model_options": _model_options(named, recipe.get("model_options") or {}, setting),
        "data_options": _data_options(dataset, recipe.get("data_options") or {}),
        "augment": _augmentation(augment, setting),
        "weights": weights and Path(weights).name,
        "new_head": recipe.get("new_head") or None,
    }


def _data_options(dataset: str, given: Values) -> Values:
    return _or_as_written(lambda: find(dataset).with_defaults(given), given)


def _model_options(name: str, given: Values, setting: Values) -> Values:
    """Return the options of a network; a user's own module is not imported for it, the record says what it had."""
    if ":" in name:
        return dict(setting.get("model", {}).get("options", given))
    return _or_as_written(lambda: with_defaults(name, given), given)


def _clients(partition: Values | None) -> int | str:
    """Return how many clients a partition makes where no number was given."""
    rule = Partitioner.registry.get(str((partition or {}).get("id")))
    return UNKNOWN if rule is None or rule.as_the_data_has else rule.default_clients


def _augmentation(asked: bool | str, setting: Values) -> str:
    used = setting.get("augmentation", {})
    if used.get("default") or asked is True:
        return "default"
    return ",".join(used.get("names", ())) or (asked if isinstance(asked, str) else "none")


def _from_python(config: Values) -> Values:
    """Return a task from Python objects: name, clients, network and size, and a hash of what else decides it."""
    recipe, setting = config["task"], config.get("setting", {})
    clients, network = recipe.get("clients"), setting.get("model", {})
    told = {"kind": recipe.get("kind"), "name": recipe.get("name")}
    if not isinstance(clients, dict):  # it lived in memory only
        count = setting.get("clients", {}).get("count", UNKNOWN)
        return told | {"clients": count} | _network(network.get("class", UNKNOWN), network)
    model = without_addresses(recipe["model"])
    described = {name: recipe.get(name) for name in DECISIVE} | {"model": model}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    name = str(model["class"]).rpartition(":")[2]
    return told | {"clients": clients["count"], "description": digest} | _network(name, network)


def _network(name: str, recorded: Values) -> Values:
    return {"model": name, "parameters": recorded.get("parameters", UNKNOWN)}


def _flat(value: Any, name: str = "") -> Values:
    """Return nested dictionaries as one, with dotted names."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, entry in value.items() for k, v in _flat(entry, f"{name}.{key}" if name else key).items()}
