"""What a run was made of, in a few lines: for the terminal before it starts, and for every report after."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flatfed.algorithms import Algorithm, Average
from flatfed.core.errors import FlatfedError
from flatfed.data.partition import Partitioner
from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.results import Result
from flatfed.reports.tables.numbers import megabytes
from flatfed.runs.files import read_json

Config = Mapping[str, Any]
Lines = list[tuple[str, str]]

IDLE = {"lr_decay": 1.0, "momentum": 0.0, "clip": None}
"""Training settings that need no word where they do nothing."""
LABEL = 11
"""Columns of the names before the lines."""


def common_lines(config: Config, seeds: Sequence[int]) -> Lines:
    """Return what the methods of a comparison share, as far as it is recorded: data, clients, network, training."""
    setting = config.get("setting") or {}
    parts = {
        "data": _data(setting["data"]) if "data" in setting else "",
        "clients": _clients(setting["clients"]) if "clients" in setting else "",
        "partition": _partition(setting["partition"], setting["data"]["classes"]) if setting.get("partition") else "",
        "network": _network(setting) if "model" in setting else "",
        "training": _training(config, seeds),
    }
    return [(name, text) for name, text in parts.items() if text]


def run_lines(config: Config) -> Lines:
    """Return the lines of one run: what is common, its method with all parameters, and its cost per round."""
    cost = cost_line(config)
    common = common_lines(config, [config["settings"]["seed"]])
    return [*common, ("method", method_line(config)), *([("per round", cost)] if cost else [])]


def comparison_lines(configs: Sequence[Config], seeds: Sequence[int]) -> Lines:
    """Return the lines of a comparison: what is common once (clients as of the first seed), and a line per method."""
    cost = [cost_line(config, brief=True) for config in configs]
    methods = [method_line(c) + (f"; {told}" if told else "") for c, told in zip(configs, cost, strict=True)]
    names = ["methods" if number == 0 else "" for number in range(len(methods))]
    return [*common_lines(configs[0], seeds), *zip(names, methods, strict=True)]


def wrapped(lines: Lines, width: int) -> Iterator[str]:
    """Yield the lines in two columns of at most `width` characters."""
    for name, text in lines:
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=f"{name:<{LABEL}}",
            subsequent_indent=" " * (LABEL if name else LABEL + 2),
            break_on_hyphens=False,
            break_long_words=False,
        )


# One line each.


def _data(data: Config) -> str:
    classes = f", {data['classes']} classes" if data["classes"] else ""
    tests = [f"{name} {count:,}" for name, count in data["tests"].items()]
    return f"{_call(data['name'], data.get('options') or {})}: {data['examples']:,} examples{classes}" + (
        f"; {', '.join(tests)}" if tests else "; no test set"
    )


def _clients(clients: Config) -> str:
    classes = f", classes {_range(clients['classes'])}" if clients["classes"] is not None else ""
    return f"{clients['count']:,}; min/mean/max examples {_range(clients['examples'])}{classes} per client"


def _range(counts: Config) -> str:
    return f"{counts['min']:,}/{counts['mean']:,.4g}/{counts['max']:,}"


def _partition(partition: Config, classes: int | None) -> str:
    try:
        meaning = Partitioner.registry.from_dict(partition).meaning(classes or 0) if classes else ""
    except FlatfedError:  # a rule of the user's own that is not imported here
        meaning = ""
    return _named(partition) + (f"; {meaning}" if meaning else "")


def _network(setting: Config) -> str:
    model, names = setting["model"], setting["augmentation"]["names"]
    size = f"{model['parameters']:,} parameters, {megabytes(model['bytes'])}"
    augmentation = f"augmentation {', '.join(names)}" if names else "no augmentation"
    return f"{_call(model['name'], model['options'])}: {size}; {augmentation}"


def method_line(config: Config) -> str:
    """Return the method with all its parameters, those of its client optimiser and average too."""
    own = {n: _named(v) if isinstance(v, dict) else v for n, v in config["algorithm"].items() if n != "id"}
    return f"{config['method']}: {_listed(own) or 'no parameters'}{_pooled(config)}{_average(config)}"


def _pooled(config: Config) -> str:
    """Say that a method trains on everyone's examples at once, if it does."""
    method = Algorithm.registry.get(config["algorithm"]["id"])
    return "; all clients' examples in one place" if method is not None and method.pooled else ""


def _average(config: Config) -> str:
    """Return the average, and say where none will come of it."""
    if not config["average"]:
        return ""
    try:
        idle = not Average.registry.from_dict(config["average"]).averages(config["settings"]["rounds"])
    except FlatfedError:  # one of the user's own that is not imported here
        idle = False
    return f"; average {_named(config['average'])}" + (
        ", which takes no model in this number of rounds" if idle else ""
    )


def _training(config: Config, seeds: Sequence[int]) -> str:
    settings = config["settings"]
    epochs, size = settings["local_epochs"], settings["batch_size"]
    local = f"{epochs} local epoch{'s' if epochs > 1 else ''}, batch {'full' if size is None else size}"
    keyed = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    told = {name: settings[name] for name in ("lr", "lr_decay", "weight_decay", "momentum", "clip")}
    shown = {name: value for name, value in told.items() if value != IDLE.get(name, ...)}
    return "; ".join(
        (
            f"{settings['rounds']:,} rounds, {_cohort(config['sampler'])}",
            f"{local}, {_listed(shown)}",
            f"weighting {settings['weighting']}, {settings['dtype']}, {keyed}",
        )
    )


def _cohort(sampler: Config) -> str:
    if "count" in sampler:
        return f"{sampler['count']:,} client{'s' if sampler['count'] > 1 else ''} per round ({sampler['id']})"
    return f"clients join by {_named({n: v for n, v in sampler.items() if n != 'cohorts'})}"


def cost_line(config: Config, brief: bool = False) -> str:
    """Return the cost of a round, if it was counted."""
    cost = (config.get("setting") or {}).get("cost")
    if cost is None:
        return ""
    steps = f"backprops per step: {cost['backprops_per_step']}"
    down, up = cost["vectors_down"], cost["vectors_up"]
    if brief:
        return f"{down} down, {up} up, {steps}"
    amounts = f"{down} down ({megabytes(cost['bytes_down'])} in all), {up} up ({megabytes(cost['bytes_up'])})"
    return f"{cost['clients']:,.4g} clients; model-sized vectors per client: {amounts}; {steps}"


def _named(written: Config) -> str:
    return _call(str(written.get("id", "")), {name: value for name, value in written.items() if name != "id"})


def _call(name: str, values: Config) -> str:
    listed = _listed({n: _named(v) if isinstance(v, dict) else v for n, v in values.items() if v not in (None, "")})
    return f"{name}({listed})" if listed else name


def _listed(values: Config) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# Reports.


def setting_section(results: Sequence[Result]) -> str:
    """Return the section `Setting` of a report: the facts of its first run, the methods, and the versions used."""
    runs = [result.runs[0] for result in results if result.runs]
    if not runs:
        return ""
    configs = [run.config for run in runs]
    seeds = [run.seed for run in results[0].runs]
    lines = run_lines(configs[0]) if len(configs) == len(seeds) == 1 else comparison_lines(configs, seeds)
    told = "; ".join(dict.fromkeys(", ".join(f"{n} {v}" for n, v in versions(run).items()) for run in runs))
    items = [f"- **{name}** {text}" if name else f"  - {text}" for name, text in lines]
    return "\n".join(["## Setting", "", *items, *([f"- **versions** {told}"] if told else [])]) + "\n"


def recorded_settings(results: Sequence[Result]) -> dict[str, Any]:
    """Return for JSON what is recorded of each method's setting; nothing of runs from before it was."""
    first = {result.method: result.runs[0] for result in results if result.runs}
    found = {name: _recorded(run) for name, run in first.items() if "setting" in run.config}
    return {"setting": found} if found else {}


def _recorded(run: OneRun) -> dict[str, Any]:
    method = {name: run.config[name] for name in ("algorithm", "average", "sampler", "settings")}
    return {**run.config["setting"], **method, "versions": versions(run)}


def versions(run: OneRun) -> dict[str, str]:
    """Return the versions of flatfed, torch and Python that a run was made with."""
    path = run.path / "environment.json"
    found = read_json(path) if path.is_file() else {}
    packages = found.get("packages", {})
    told = {name: packages.get(name) for name in ("flatfed", "torch")} | {"Python": found.get("python")}
    return {name: str(version) for name, version in told.items() if version}
