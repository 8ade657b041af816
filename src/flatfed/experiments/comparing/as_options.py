"""The record of a run or of a comparison as options: what it would take to ask for the same again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.settings import about_settings
from flatfed.core.errors import ConfigError
from flatfed.core.method.algorithm import Algorithm

DATASET, METHODS, SEEDS = "dataset", "methods", "seeds"
SAME = (
    *("clients", "model", "augment", "data_dir", "weights", "new_head", "local_layers", "partition_seed", "metrics"),
    *("validation", "validation_split"),
)
"""Entries of a recipe that are options of the same name."""


def as_options(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record as options, with `dataset`, `methods` and `seeds`."""
    task = record["task"]
    if task.get("kind", "catalogue") != "catalogue":
        raise ConfigError("its task was made in Python, so options cannot say it; train it from there")
    methods = _methods(record)
    options = _training(record["settings"]) | _sampling(record["sampler"]) | _task(task)
    by_name: dict[str, Any] = {f"partition.{name}": value for name, value in _parameters(task["partition"]).items()}
    by_name |= {f"model.{name}": value for name, value in task.get("model_options", {}).items()}
    by_name |= {f"data.{name}": value for name, value in task.get("data_options", {}).items()}
    for spelling, changed in methods.items():
        prefix = f"{spelling}:" if len(methods) > 1 else ""
        by_name |= {f"{prefix}{name}": value for name, value in changed.items()}
    seeds = record.get("seeds", [record["settings"].get("seed", 0)])
    return options | {"set": by_name, DATASET: task["dataset"], METHODS: list(methods), SEEDS: seeds}


def _training(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training settings that are options; some have a word for None."""
    options: dict[str, Any] = {}
    for name, about in about_settings().items():
        if not about.group or name not in settings:
            continue
        value = settings[name]
        if value is None:
            value = about.none
        if value is not None:
            options[name] = value
    return options


def _sampling(sampler: Mapping[str, Any]) -> dict[str, Any]:
    if sampler["id"] == "uniform":
        return {"per_round": sampler["count"]}
    if sampler["id"] == "bernoulli":
        return {"bernoulli": sampler["p"]}
    if sampler["id"] == "replay":
        raise ConfigError("its clients were drawn by replay, which no option says; train it from Python")
    values = ", ".join(f"{name}={value}" for name, value in _parameters(sampler).items())
    return {"sampling": f"{sampler['id']}({values})"}


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: task[name] for name in SAME if task.get(name) is not None}
    return options | {"partition": task["partition"]["id"]}


def _parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "id"}


def _methods(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each method's spelling, with the parameters that are not its defaults."""
    entries = record.get("methods")
    if entries is None:
        entries = [{"spelling": record["method"], "algorithm": record["algorithm"], "average": record["average"]}]
    return {entry["spelling"]: _changed(entry) for entry in entries}


def _changed(entry: Mapping[str, Any]) -> dict[str, Any]:
    if entry["algorithm"]["id"] not in Algorithm.registry:
        # A part from outside, which is not imported yet: all that it was given is returned.
        return _all_of(entry)
    usual = parse_method(entry["spelling"])
    changed = _differing(entry["algorithm"], usual.algorithm.to_dict())
    if usual.average is not None and entry["average"]:
        of_average = _differing(entry["average"], usual.average.to_dict())
        changed |= {f"average.{name}": value for name, value in of_average.items()}
    return changed


def _all_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return every parameter of a method and its parts."""
    every: dict[str, Any] = {}
    for owner, config in (("", entry["algorithm"]), ("average.", entry["average"] or {})):
        for name, value in _parameters(config).items():
            if isinstance(value, Mapping):
                every |= {f"{owner}{name}.{inner}": part for inner, part in _parameters(value).items()}
            else:
                every[f"{owner}{name}"] = value
    return every


def _differing(config: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that differ, those of a part under its name: `client_opt.rho`."""
    changed: dict[str, Any] = {}
    for name, value in config.items():
        if name not in usual or value == usual[name]:
            continue
        if isinstance(value, Mapping) and isinstance(usual[name], Mapping):
            changed |= {f"{name}.{inner}": entry for inner, entry in _differing(value, usual[name]).items()}
        else:
            changed[name] = value
    return changed
