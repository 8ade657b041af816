"""One run as reports see it, a method with its runs over seeds, and what makes two runs seeds of one thing.

That is the method and the setting, however a record wrote them. A record may be older than a parameter (its default is
meant), spell a value by an alias, or hold addresses of a process that is gone. So every part is read through the class
that it names and compared as that writes it today; what cannot be read so, such as a method that is not imported here,
is compared as it stands.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from flatfed.algorithms import Algorithm, Average
from flatfed.core.configuration.config import build
from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import FlatfedError
from flatfed.core.round.sampling import Sampler
from flatfed.data.catalogue import find, is_import_path
from flatfed.data.partition import Partitioner
from flatfed.models.catalogue import with_defaults
from flatfed.reports.tables.grid import Spread, known, known_items, spread_of
from flatfed.runs.described.modules import without_addresses
from flatfed.runs.environment import read_environment
from flatfed.runs.history import Row
from flatfed.runs.metrics import Metric, metrics_of, primary_of

Values = dict[str, Any]

UNKNOWN: Final = "?"
"""What a record does not say and could be anything: it agrees with whatever the others say."""

INTERNAL = "task.description"
"""A hash of what decides a task from Python beside its name, clients and network: compared, never shown."""

SIZE = "task.parameters"
"""The number of parameters, which a network from Python is known by."""

ELSEWHERE = {"seed", "data_dir", "partition_sha256", "data_sha256", "tensors_sha256", "reason"}
"""What a recipe says that is no part of the setting: the seed, what follows from it, and where files lie."""

DECISIVE = ("loss", "augment", "prepare", "batch_transform", "local")
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
    parts = {
        "algorithm": _canonical(Algorithm.registry, config["algorithm"]),
        "average": _canonical(Average.registry, config["average"]),
        "sampler": _canonical(Sampler.registry, config["sampler"]),
        "settings": _decisive_settings(_settings(config["settings"])),
        "task": _task(config),
    }
    return known_items(_flat(parts))


def agree(first: Values, second: Values) -> bool:
    """Say whether two identities are the same as far as both are known."""
    return all(_agree(first.get(name), second.get(name)) for name in {*first, *second})


def _agree(value: Any, other: Any) -> bool:
    return value == other or UNKNOWN in (value, other)


def _canonical(registry: Registry[Any], written: Values | None) -> Values | None:
    """Return a configuration as its class writes it today, or as it stands where that cannot be."""
    if not written:
        return written
    return _or_as_written(lambda: registry.from_dict(written).to_dict(), written)


def _settings(written: Values) -> Values:
    """Return the training settings; runs from before `vectorised` went client by client."""
    return _or_as_written(lambda: build(Settings, {"vectorised": False} | written).to_dict() | {"id": None}, written)


def _decisive_settings(settings: Values) -> Values:
    """Return the settings without the seed, and without those that change no result.

    The time for a client is there for those that hang; the memory for a round says where replies wait; and a checkpoint
    that is kept changes none.
    """
    others = ("seed", "client_timeout", "cohort_memory", "keep_best")
    return {name: value for name, value in settings.items() if name not in others}


def _or_as_written(read: Callable[[], Values], written: Values) -> Values:
    try:
        return read()
    except (FlatfedError, TypeError, KeyError):
        return written


# Tasks.


def _task(config: Values) -> Values:
    if config["task"].get("kind") == "catalogue":
        return _catalogue(config)
    return _from_python(config)


def _catalogue(config: Values) -> Values:
    """Return a task of the catalogue with every option, whether it was named or not."""
    recipe = _decisive(config["task"])
    setting = config.get("setting", {})
    partition = _canonical(Partitioner.registry, recipe.get("partition"))
    return recipe | {
        "clients": recipe.get("clients") or _clients(partition),
        "partition": partition,
        "model": _model(recipe),
        "model_options": _model_options(_model(recipe), recipe.get("model_options") or {}, setting),
        "data_options": _data_options(str(recipe.get("dataset")), recipe.get("data_options") or {}, setting),
        "augment": _augmentation(recipe.get("augment", True), setting),
        "weights": _file_name(recipe.get("weights")),
        "new_head": recipe.get("new_head") or None,
        "validation_split": recipe.get("validation") and recipe.get("validation_split", "client"),
    }


def _decisive(recipe: Values) -> Values:
    """Return the part of a recipe that belongs to the setting."""
    return {name: value for name, value in recipe.items() if name not in ELSEWHERE}


def _model(recipe: Values) -> str:
    """Return the network; where none is named, the one that was used for the data set."""
    return recipe.get("model") or FORMER_MODELS.get(str(recipe.get("dataset")), UNKNOWN)


def _file_name(path: str | None) -> str | None:
    """Return a file without its folder: the same weights may lie elsewhere."""
    if not path:
        return path
    return Path(path).name


def _data_options(dataset: str, options: Values, setting: Values) -> Values:
    """Return the options of the data; a user's own function is not imported for it, the record says what it had."""
    if is_import_path(dataset):
        return dict(setting.get("data", {}).get("options", options))
    return _or_as_written(lambda: find(dataset).with_defaults(options), options)


def _model_options(name: str, options: Values, setting: Values) -> Values:
    """Return the options of a network; a user's own module is not imported for it, the record says what it had."""
    if ":" in name:
        return dict(setting.get("model", {}).get("options", options))
    return _or_as_written(lambda: with_defaults(name, options), options)


def _clients(partition: Values | None) -> int | str:
    """Return how many clients a partition makes where no number was given."""
    if not partition:
        return UNKNOWN
    rule = Partitioner.registry.get(str(partition.get("id")))
    # Where the data itself says who holds what, the number is not known before the data is read.
    if rule is None or rule.as_the_data_has:
        return UNKNOWN
    return rule.default_clients


def _augmentation(asked: bool | str, setting: Values) -> str:
    used = setting.get("augmentation", {})
    if used.get("default") or asked is True:
        return "default"
    recorded = ",".join(used.get("names", ()))
    return recorded or _asked_augmentation(asked)


def _asked_augmentation(asked: bool | str) -> str:
    if isinstance(asked, str):
        return asked
    return "none"


def _from_python(config: Values) -> Values:
    """Return a task from Python objects: name, clients, network and size, and a hash of what else decides it."""
    recipe, setting = config["task"], config.get("setting", {})
    network = setting.get("model", {})
    task = {"kind": recipe.get("kind"), "name": recipe.get("name"), "parameters": network.get("parameters", UNKNOWN)}
    if isinstance(recipe.get("clients"), dict):
        return task | _described(recipe)
    # The task lived in memory only: no record describes its objects.
    count = setting.get("clients", {}).get("count", UNKNOWN)
    return task | {"clients": count, "model": network.get("class", UNKNOWN)}


def _described(recipe: Values) -> Values:
    """Return clients, network and hash of a task whose objects the record describes."""
    model = without_addresses(recipe["model"])
    decisive = {name: recipe.get(name) for name in DECISIVE} | {"model": model}
    # Sorted, so that the order in which a record was written does not matter.
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()
    name = str(model["class"]).rpartition(":")[2]
    return {"clients": recipe["clients"]["count"], "description": digest, "model": name}


def _flat(values: Values, prefix: str = "") -> Values:
    """Return nested dictionaries as one, with dotted names."""
    flat: Values = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


@dataclass(frozen=True)
class OneRun:
    """A run's configuration, metrics and history."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    rows: list[Row]

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["settings"]["seed"])

    @cached_property
    def versions(self) -> dict[str, str]:
        """The versions of flatfed, torch and Python that it was made with."""
        environment = read_environment(self.path)
        packages = environment.get("packages", {})
        known = {
            "flatfed": packages.get("flatfed"),
            "torch": packages.get("torch"),
            "Python": environment.get("python"),
        }
        return {name: str(version) for name, version in known.items() if version}

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every number of its test sets."""
        return metrics_of(self.rows, self.config)


UNDER_WAY = ("running", "interrupted")
ACCURACIES = ("accuracy_final", "accuracy_last_mean", "accuracy_best")


@dataclass(frozen=True)
class Result:
    """One method over its seeds; `differs` are the options in which the results side by side differ, with its values.

    `method` is a label of its own among these results, `label_says_all` whether the labels say all that differs.
    """

    method: str
    runs: list[OneRun]
    differs: dict[str, Any] = field(default_factory=dict)
    label_says_all: bool = True

    @property
    def metrics(self) -> list[Metric]:
        """Every number of the runs' test sets, the primary one first."""
        return list(dict.fromkeys(metric for run in self.runs for metric in run.metrics))

    @property
    def primary(self) -> Metric:
        """The metric that tables and curves go by."""
        return primary_of(self.metrics, self.runs[0].config)

    @property
    def seeds(self) -> set[int]:
        """The seeds of the runs."""
        return {run.seed for run in self.runs}

    @property
    def good(self) -> list[OneRun]:
        """The runs whose metrics count: the finished ones, or while there is none, those still under way."""
        # A run that diverged never counts: its last value says nothing about the method's accuracy.
        return self._with_status("finished") or self._with_status(*UNDER_WAY)

    def _with_status(self, *statuses: str) -> list[OneRun]:
        return [run for run in self.runs if run.summary["status"] in statuses]

    def spread(self, name: str) -> Spread | None:
        """Return mean and sample standard deviation of a number of the summaries over the good runs."""
        return spread_of(known(run.summary.get(name) for run in self.good))

    def mean(self, name: str) -> float:
        """Return the mean of a cost over all runs."""
        # Of runs that diverged too, because they have cost as much.
        return statistics.fmean(run.summary[name] for run in self.runs)

    @property
    def status(self) -> str:
        """How the runs ended, in a few words: `finished`, or `1 of 2 diverged (round 17)`."""
        statuses = {run.summary["status"] for run in self.runs}
        if statuses == {"finished"}:
            return self._finished_text()
        return ", ".join(map(self._status_text, sorted(statuses)))

    def _finished_text(self) -> str:
        """Say of finished runs which ended early, after how many rounds."""
        early = [run for run in self.runs if run.summary["reason"]]
        if not early:
            return "finished"
        rounds = ", ".join(str(run.summary["rounds"]) for run in early)
        if len(early) == len(self.runs):
            return f"finished early (round {rounds})"
        return f"finished, {len(early)} of {len(self.runs)} early (round {rounds})"

    def _status_text(self, status: str) -> str:
        """Return how many runs ended so, where there are several, and after how many rounds."""
        runs = self._with_status(status)
        text = f"{status}{_rounds_text(status, runs)}"
        if len(self.runs) == 1:
            return text
        return f"{len(runs)} of {len(self.runs)} {text}"


def _rounds_text(status: str, runs: Sequence[OneRun]) -> str:
    """Say after how many rounds runs ended, unless they are finished."""
    if status == "finished":
        return ""
    rounds = ", ".join(str(run.summary["rounds"]) for run in runs)
    return f" (round {rounds})"


def all_runs(results: Sequence[Result]) -> list[OneRun]:
    """Return the runs of all results."""
    return [run for result in results for run in result.runs]
