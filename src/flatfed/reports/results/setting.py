"""What a run was made of, in a few lines: for the terminal before it starts, and for every report after."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flatfed.algorithms import Algorithm, Average
from flatfed.core.configuration.base_optimiser import BaseOptimiser
from flatfed.core.configuration.checking import checked
from flatfed.core.errors import FlatfedError
from flatfed.data.partition import Partitioner
from flatfed.outside.origins import ORIGINS, outside_text
from flatfed.reports.results.result import OneRun, Result, all_runs
from flatfed.reports.tables.grid import known_items, megabytes

Config = Mapping[str, Any]
Lines = list[tuple[str, str]]

BASE_OPT = "base_opt"
IDLE = {"lr_decay": 1.0, "momentum": 0.0, "clip": None, BASE_OPT: "sgd"}
"""Training settings that need no word where they do nothing."""
TRAINING = ("lr", "lr_decay", "weight_decay", "momentum", "clip", BASE_OPT)
STEERING = ("stop_when", "patience", "min_delta", "monitor", "keep_best", "lr_plateau")
"""Settings by which the history of a run decides something."""
LABEL = 11
"""Columns of the names before the lines."""


def common_lines(config: Config, seeds: Sequence[int]) -> Lines:
    """Return what the methods of a comparison share, as far as it is recorded: data, clients, network, training."""
    setting = config.get("setting") or {}
    return [*_recorded_lines(setting), ("training", _training(config, seeds)), *_steering(config["settings"])]


def _recorded_lines(setting: Config) -> Lines:
    """Return the lines of what is recorded: runs of earlier versions recorded less, or nothing."""
    lines: Lines = []
    if "data" in setting:
        lines.append(("data", _data(setting["data"])))
    if "clients" in setting:
        lines.append(("clients", _clients(setting["clients"])))
    if setting.get("partition"):
        lines.append(("partition", _partition(setting["partition"], setting["data"]["classes"])))
    if "model" in setting:
        lines.append(("network", _network(setting)))
    return lines


def run_lines(config: Config) -> Lines:
    """Return the lines of one run: what is common, its method with all parameters, and its cost per round."""
    lines = [*common_lines(config, [config["settings"]["seed"]]), ("method", method_line(config))]
    cost = cost_line(config)
    if cost:
        lines.append(("per round", cost))
    return lines


def comparison_lines(configs: Sequence[Config], seeds: Sequence[int]) -> Lines:
    """Return the lines of a comparison: what is common once (clients as of the first seed), and a line per method."""
    methods = [_joined(method_line(config), cost_line(config, brief=True)) for config in configs]
    names = ["methods", *[""] * (len(methods) - 1)]
    return [*common_lines(configs[0], seeds), *zip(names, methods, strict=True)]


def _joined(*parts: str) -> str:
    """Return the parts that say something, divided by semicolons."""
    return "; ".join(filter(None, parts))


def wrapped(lines: Lines, width: int) -> Iterator[str]:
    """Yield the lines in two columns of at most `width` characters."""
    for name, text in lines:
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=f"{name:<{LABEL}}",
            subsequent_indent=" " * _indent(name),
            break_on_hyphens=False,
            break_long_words=False,
        )


def _indent(name: str) -> int:
    """Return how far further lines of a text are indented: more where no name shows that a new text begins."""
    if name:
        return LABEL
    return LABEL + 2


# One line each.


def _data(data: Config) -> str:
    name = _call(data["name"], data.get("options") or {})
    classes = ""
    if data["classes"]:
        classes = f", {data['classes']} classes"
    return f"{name}: {data['examples']:,} examples{classes}; {_tests(data['tests'])}"


def _tests(counts: Config) -> str:
    tests = [f"{name} {count:,}" for name, count in counts.items()]
    return ", ".join(tests) or "no test set"


def _clients(clients: Config) -> str:
    classes = ""
    if clients["classes"] is not None:
        classes = f", classes {_range(clients['classes'])}"
    return f"{clients['count']:,}; min/mean/max examples {_range(clients['examples'])}{classes} per client"


def _range(counts: Config) -> str:
    return f"{counts['min']:,}/{counts['mean']:,.4g}/{counts['max']:,}"


def _partition(partition: Config, classes: int | None) -> str:
    return _joined(_named(partition), _meaning(partition, classes))


def _meaning(partition: Config, classes: int | None) -> str:
    """Say what a partition does to the classes, where there are some."""
    if not classes:
        return ""
    try:
        return Partitioner.registry.from_dict(partition).meaning(classes)
    except FlatfedError:  # a rule of the user's own that is not imported here
        return ""


def _network(setting: Config) -> str:
    model = setting["model"]
    size = f"{model['parameters']:,} parameters, {megabytes(model['bytes'])}"
    return f"{_call(model['name'], model['options'])}: {size}; {_augmentation(setting['augmentation']['names'])}"


def _augmentation(names: Sequence[str]) -> str:
    if not names:
        return "no augmentation"
    return f"augmentation {', '.join(names)}"


def method_line(config: Config) -> str:
    """Return the method with all its parameters, those of its client optimiser and average too."""
    parameters = _listed(_without(config["algorithm"], "id")) or "no parameters"
    return _joined(f"{config['method']}: {parameters}", _pooled(config), _average(config))


def _pooled(config: Config) -> str:
    """Say that a method trains on everyone's examples at once, if it does."""
    method = Algorithm.registry.get(config["algorithm"]["id"])
    if method is None or not method.pooled:
        return ""
    return "all clients' examples in one place"


def _average(config: Config) -> str:
    """Return the average, and say where none will come of it."""
    if not config["average"]:
        return ""
    text = f"average {_named(config['average'])}"
    if _takes_no_model(config):
        text += ", which takes no model in this number of rounds"
    return text


def _takes_no_model(config: Config) -> bool:
    try:
        return not Average.registry.from_dict(config["average"]).averages(config["settings"]["rounds"])
    except FlatfedError:  # one of the user's own that is not imported here
        return False


def _training(config: Config, seeds: Sequence[int]) -> str:
    settings = config["settings"]
    given = {name: settings[name] for name in TRAINING if name in settings}
    if BASE_OPT in given:
        given[BASE_OPT] = _shortened(given[BASE_OPT])
    values = {name: value for name, value in given.items() if not _is_idle(name, value)}
    return "; ".join(
        (
            f"{settings['rounds']:,} rounds, {_cohort(config['sampler'])}",
            f"{_local(settings)}, {_listed(values)}",
            f"weighting {settings['weighting']}, {_number_type(settings)}, {_seeds(seeds)}",
        )
    )


def _steering(settings: Config) -> Lines:
    """Return what the history of a run may decide, where it may decide something; earlier versions know none of it."""
    given = {name: settings.get(name) for name in STEERING if settings.get(name)}
    if not given:
        return []
    values = (name.replace("_", " ") + ("" if value is True else f" {value}") for name, value in given.items())
    return [("by history", "; ".join(values))]


def _number_type(settings: Config) -> str:
    """Return the number type, and in what the passes differ from it."""
    shorter = settings.get("precision", settings["dtype"])
    mixed = "" if shorter in ("float32", settings["dtype"]) else f" with passes in {shorter}"
    return f"{settings['dtype']}{mixed}{', compiled' if settings.get('compile') else ''}"


def _shortened(written: str) -> str:
    """Return a base optimiser as it would be written, without what is default."""
    try:
        return str(checked(BaseOptimiser, written, BASE_OPT))
    except FlatfedError:  # one of the user's own that is not imported here
        return written


def _is_idle(name: str, value: Any) -> bool:
    return name in IDLE and value == IDLE[name]


def _local(settings: Config) -> str:
    """Return what a client does per round."""
    size = settings["batch_size"]
    if size is None:
        size = "full"
    epochs = settings["local_epochs"]
    return f"{epochs} local {_plural('epoch', epochs)}, batch {size}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"{_plural('seed', len(seeds))} {', '.join(map(str, seeds))}"


def _plural(noun: str, count: float) -> str:
    if count > 1:
        return f"{noun}s"
    return noun


def _cohort(sampler: Config) -> str:
    if "count" in sampler:
        count = sampler["count"]
        return f"{count:,} {_plural('client', count)} per round ({sampler['id']})"
    return f"clients join by {_named(_without(sampler, 'cohorts'))}"


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
    """Return a configuration as a call: its id with its parameters."""
    return _call(str(written.get("id", "")), _without(written, "id"))


def _without(written: Config, left_out: str) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name != left_out}


def _call(name: str, values: Config) -> str:
    listed = _listed(_not_empty(values))
    if not listed:
        return name
    return f"{name}({listed})"


def _not_empty(values: Config) -> dict[str, Any]:
    """Return the values that say something."""
    return {name: value for name, value in values.items() if value not in (None, "")}


def _listed(values: Config) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return _named(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


# Reports.


def setting_section(results: Sequence[Result]) -> str:
    """Return the section `Setting` of a report: the facts of its first run, the methods, and the versions used."""
    runs = _first_runs(results)
    if not runs:
        return ""
    lines = [*_setting_lines(results, runs), *_outside_lines(runs), *_versions_lines(runs)]
    items = [_item(name, text) for name, text in lines]
    return "\n".join(["## Setting", "", *items]) + "\n"


def _outside_lines(runs: Sequence[OneRun]) -> Lines:
    text = outside_text([run.config for run in runs])
    return [("parts from outside", text)] if text else []


def _versions_lines(runs: Sequence[OneRun]) -> Lines:
    texts = dict.fromkeys(map(_versions_text, runs))
    text = _joined(*texts)
    if not text:
        return []
    return [("versions", text)]


def _first_runs(results: Sequence[Result]) -> list[OneRun]:
    """Return the first run of each method: its other seeds have the same setting."""
    return [result.runs[0] for result in results if result.runs]


def _setting_lines(results: Sequence[Result], runs: Sequence[OneRun]) -> Lines:
    if len(all_runs(results)) == 1:
        return run_lines(runs[0].config)
    seeds = [run.seed for run in results[0].runs]
    return comparison_lines([run.config for run in runs], seeds)


def _item(name: str, text: str) -> str:
    """Return an item of a Markdown list; one without a name belongs below the item before it."""
    if name:
        return f"- **{name}** {text}"
    return f"  - {text}"


def recorded_settings(results: Sequence[Result]) -> dict[str, Any]:
    """Return for JSON what is recorded of each method's setting; nothing of runs from before it was."""
    settings = known_items({result.method: _recorded(result) for result in results})
    if not settings:
        return {}
    return {"setting": settings}


def _recorded(result: Result) -> dict[str, Any] | None:
    """Return the setting of a method's first run, if it was recorded."""
    if not result.runs or "setting" not in result.runs[0].config:
        return None
    run = result.runs[0]
    method = {name: run.config[name] for name in ("algorithm", "average", "sampler", "settings")}
    outside = {ORIGINS: run.config[ORIGINS]} if run.config.get(ORIGINS) else {}
    return {**run.config["setting"], **method, **outside, "versions": run.versions}


def _versions_text(run: OneRun) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())
