"""Which published values belong to a run's setting, and in what the two differ.

The same are data set, partition with its value, model, number of clients, clients per round, and method. What else
differs is stated beside each value: rounds, local epochs, augmentation, training settings, parameters of the method.
What the paper does not state can be neither the same nor another: it is stated as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flatfed.core.configuration.settings import later_settings
from flatfed.core.errors import FlatfedError
from flatfed.data.catalogue import find
from flatfed.data.partition import Partitioner
from flatfed.models.catalogue import with_defaults
from flatfed.published.choices import PaperChoice, choices_for
from flatfed.published.conditions import AUGMENTATIONS, Conditions, conditions_of
from flatfed.published.method_names import one_spelling, spelling_of
from flatfed.published.numbers import PublishedValue, values
from flatfed.published.setting_names import CENTRALISED, data_of, partition_of, same_name

Config = Mapping[str, Any]

NONE_PUBLISHED = "no published value for this setting"

NORMALISATION = "normalisation"
NO_MATTER = ("memory", "verify")
"""Options of data that change no result."""


@dataclass(frozen=True)
class Match:
    """A published value of a run's setting.

    Attributes:
        value: as it was published.
        differences: in what the published run differs from this one, a sentence each.
        unstated: what of the setting the paper does not state, so that it may differ.
    """

    value: PublishedValue
    differences: tuple[str, ...]
    unstated: tuple[str, ...]


@dataclass(frozen=True)
class RunSetting:
    """What decides whether a value belongs to a run, taken from the run's record."""

    config: Config
    method: str
    dataset: str
    data_options: Mapping[str, Any]
    partition: Mapping[str, Any]
    model: str
    clients: int | None
    per_round: float | None

    @classmethod
    def of(cls, config: Config) -> RunSetting | None:
        """Return the setting of a run; None for a task from Python, whose data has no name that papers know."""
        task, setting = config["task"], config.get("setting") or {}
        if task.get("kind") != "catalogue":
            return None
        clients = (setting.get("clients") or {}).get("count") or task.get("clients")
        return cls(
            config,
            one_spelling(str(config["method"])),
            str(task["dataset"]),
            (setting.get("data") or {}).get("options") or task.get("data_options") or {},
            setting.get("partition") or task.get("partition") or {},
            (setting.get("model") or {}).get("name") or task.get("model") or "",
            clients,
            _per_round(config["sampler"], clients),
        )


def _per_round(sampler: Config, clients: int | None) -> float | None:
    """Return how many clients take part in a round, on average where that is drawn."""
    if "count" in sampler:
        return float(sampler["count"])
    if "p" in sampler and clients is not None:
        return float(sampler["p"]) * clients
    return None


def matching(config: Config) -> list[Match]:
    """Return the published values of the setting of a run, given its `config.json`, with what differs."""
    run = RunSetting.of(config)
    if run is None:
        return []
    return [compared(value, run) for value in values() if _is_same(value, run)]


def _is_same(value: PublishedValue, run: RunSetting) -> bool:
    if spelling_of(value) != run.method or not is_same_data(value, run):
        return False
    if value.partition == CENTRALISED:
        return value.model in ("", run.model)
    return is_same_partition(value, run) and _is_same_size(value, run)


def is_same_data(value: PublishedValue, run: RunSetting) -> bool:
    """Say whether the data set is the same, with the options that the table fixes."""
    name, options = data_of(value)
    if name != run.dataset:
        return False
    return all(same_name(str(run.data_options.get(key, "")), text) for key, text in options.items())


def is_same_partition(value: PublishedValue, run: RunSetting) -> bool:
    """Say whether the examples are divided among clients by the same rule with the same number."""
    published = partition_of(value)
    if published is None:
        return False
    return all(is_equal(run.partition.get(name), given) for name, given in published.items())


def _is_same_size(value: PublishedValue, run: RunSetting) -> bool:
    """Say whether model, clients and clients per round are the same, as far as they are stated."""
    return (
        value.model in ("", run.model)
        and value.clients_total in (None, run.clients)
        and (value.clients_per_round is None or is_equal(run.per_round, value.clients_per_round))
    )


def is_equal(value: Any, other: Any) -> bool:
    """Say whether two values are the same, numbers up to their last digits."""
    if _is_number(value) and _is_number(other):
        return math.isclose(value, other, rel_tol=1e-9)
    return bool(value == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# What differs.


def compared(value: PublishedValue, run: RunSetting) -> Match:
    """Return a value with all in which its run differs, or may, besides the setting's size."""
    conditions = conditions_of(value)
    differences = [
        *_rounds(value, conditions, run),
        *_local_epochs(value, run),
        *_choices(value, conditions, run),
        *_parameters(conditions, run),
        *_augmentation(conditions, run),
        *_options(value, run),
        *_local_steps(run),
        *_remarks(conditions),
    ]
    return Match(value, tuple(differences), tuple(_unstated(value)))


def _rounds(value: PublishedValue, conditions: Conditions, run: RunSetting) -> Iterator[str]:
    if value.rounds is None:
        return
    after, own = value.rounds * conditions.share, run.config["settings"]["rounds"]
    if conditions.share < 1:
        yield f"published after {after:.0f} of {value.rounds} rounds, this run {own}"
    elif value.rounds != own:
        yield f"published after {value.rounds} rounds, this run {own}"


def _local_epochs(value: PublishedValue, run: RunSetting) -> Iterator[str]:
    own = run.config["settings"]["local_epochs"]
    if value.partition != CENTRALISED and value.local_epochs not in (None, own):
        yield _differs("local epochs", value.local_epochs, own)


def _local_steps(run: RunSetting) -> Iterator[str]:
    """Yield what this run has of settings that all papers leave as they are: SGD on the clients, in float32."""
    for name, value in later_settings(run.config["settings"]).items():
        yield f"this run has {name}={value}"


def _augmentation(conditions: Conditions, run: RunSetting) -> Iterator[str]:
    used = (run.config.get("setting") or {}).get("augmentation") or {}
    names = [str(name).partition("(")[0] for name in used.get("names", ())]
    for name in AUGMENTATIONS:
        published, own = name in conditions.augmentation, name in names
        if published != own:
            yield f"published {_with(published)} {name}, this run {_with(own)}"
    if used.get("names") == []:
        yield "this run has no augmentation"


def _with(has: bool) -> str:
    if has:
        return "with"
    return "without"


def _choices(value: PublishedValue, conditions: Conditions, run: RunSetting) -> Iterator[str]:
    """Yield the training settings and parameters of the method that differ, as the paper chose them."""
    for choice in choices_for(value):
        # A table that varies a parameter says itself what a cell has.
        if choice.place not in conditions.parameters:
            yield from _at_place(choice.place, choice.number, run, _where(choice))


def _where(choice: PaperChoice) -> str:
    """Say where a number stands that is not the paper's own."""
    if choice.from_code:
        return " (authors' code)"
    return ""


def _parameters(conditions: Conditions, run: RunSetting) -> Iterator[str]:
    """Yield the parameters of the method that a table names and that differ."""
    for place, published in conditions.parameters.items():
        yield from _at_place(place, published, run)


def _at_place(place: str, published: Any, run: RunSetting, where: str = "") -> Iterator[str]:
    """Yield in what a value differs from the one at a place of the run's record, if there is one."""
    *path, name = place.split(".")
    owner: Any = run.config
    for key in path:
        owner = owner.get(key) or {}
    if name in owner and not is_equal(owner[name], published):
        yield _differs(_name(place), published, owner[name], where)


def _name(place: str) -> str:
    """Return the name of a place for people: that of a setting in words, that of a parameter as it is written."""
    owner, _, name = place.partition(".")
    if owner == "settings":
        return name.replace("_", " ")
    if owner == "average":
        return place
    return name


def _options(value: PublishedValue, run: RunSetting) -> Iterator[str]:
    """Yield what this run has other than by default in its data, partition and model."""
    fixed = data_of(value)[1]
    data = {name: option for name, option in run.data_options.items() if name not in (*fixed, *NO_MATTER)}
    if data.get(NORMALISATION) == value.paper:
        # Constants are named after the paper whose code has them.
        del data[NORMALISATION]
    yield from unusual("data", data, lambda: find(run.dataset).with_defaults({}))
    given = partition_of(value)
    if given is not None:
        rest = {name: option for name, option in run.partition.items() if name not in given}
        yield from unusual("partition", rest, lambda: Partitioner.registry.from_dict(given).to_dict())
    model = (run.config.get("setting") or {}).get("model") or {}
    yield from unusual("model", model.get("options") or {}, lambda: with_defaults(run.model, {}))


def unusual(owner: str, used: Mapping[str, Any], read_defaults: Callable[[], Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a run has other than by default."""
    try:
        defaults = read_defaults()
    except FlatfedError:  # one of the user's own that is not imported here
        return
    for name, option in used.items():
        if name in defaults and not is_equal(defaults[name], option):
            yield f"this run with {owner}.{name} {_shown(option)}"


def _remarks(conditions: Conditions) -> Iterator[str]:
    if conditions.remarks:
        yield f"published: {', '.join(conditions.remarks)}"


def _differs(name: str, published: Any, own: Any, where: str = "") -> str:
    return f"published with {name} {_shown(published)}{where}, this run {_shown(own)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return str(value.get("id", "another"))
    return str(value)


def _unstated(value: PublishedValue) -> Iterator[str]:
    """Yield what a paper does not state of the setting of a value."""
    if not value.model:
        yield "model"
    if value.partition != CENTRALISED:
        if not value.partition:
            yield "partition"
        if value.clients_total is None:
            yield "number of clients"
        if value.clients_per_round is None:
            yield "clients per round"
        if value.local_epochs is None:
            yield "local epochs"
    if value.rounds is None:
        yield "rounds"
