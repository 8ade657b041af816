"""Which values of one table stand beside a run that may have another size: network, clients, participation.

Where a run is not as large as the published one, `matching` finds nothing. Here the method and the partition must be
the same, and the data where the papers know them at all; every other difference is a reason that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flatfed.algorithms import Algorithm, ClientOptimiser
from flatfed.core.configuration.registry import Registry
from flatfed.published.choices import choices_for
from flatfed.published.conditions import conditions_of
from flatfed.published.lookup import lookup_parameters
from flatfed.published.matching import (
    Config,
    Match,
    RunSetting,
    compared,
    is_equal,
    is_same_data,
    is_same_partition,
    unusual,
)
from flatfed.published.method_names import spelling_of
from flatfed.published.numbers import PublishedValue, values
from flatfed.published.setting_names import CENTRALISED, data_of


@dataclass(frozen=True)
class TableMatch:
    """A value of a table that stands beside a run."""

    match: Match
    is_on_other_data: bool = False


def nearest_in_table(table: Sequence[PublishedValue], config: Config) -> list[TableMatch]:
    """Return the values of a table for a run, given its `config.json`: of each metric those that differ least.

    A run on data that no paper has, digits say, is held against the only data set of the table with its partition.
    """
    run = RunSetting.of(config)
    if run is None:
        return []
    alike = [value for value in table if spelling_of(value) == run.method and _is_divided_alike(value, run)]
    same = [value for value in alike if is_same_data(value, run)]
    other = not same
    if other:
        if _is_known(run.dataset) or len({data_of(value)[0] for value in alike}) > 1:
            return []
        same = alike
    return [TableMatch(match, other) for match in _least(same, run, other)]


def _is_divided_alike(value: PublishedValue, run: RunSetting) -> bool:
    # A table that states no partition may have any; that it states none is reported.
    return value.partition in (CENTRALISED, "") or is_same_partition(value, run)


def _is_known(dataset: str) -> bool:
    """Say whether some paper has a value for a data set."""
    return any(data_of(value)[0] == dataset for value in values())


def _with_sizes(value: PublishedValue, run: RunSetting, other_data: bool) -> Match:
    """Return a match, with the differences in size among those that are named."""
    found = compared(value, run)
    own = _own_parameters(value, run)
    return replace(found, differences=(*_sizes(value, run, other_data), *found.differences, *own))


def _own_parameters(value: PublishedValue, run: RunSetting) -> Iterator[str]:
    """Yield the parameters of the method that are not the usual ones, and of which the paper says nothing.

    A study may have several variants of one method, and the table one value for it.
    """
    said = {choice.place for choice in choices_for(value)} | conditions_of(value).parameters.keys()
    algorithm = run.config["algorithm"]
    for registry, place in ((Algorithm.registry, "algorithm"), (ClientOptimiser.registry, "algorithm.client_opt")):
        owner = algorithm if place == "algorithm" else algorithm.get("client_opt")
        if not isinstance(owner, Mapping):
            continue
        used = {name: option for name, option in owner.items() if f"{place}.{name}" not in said}
        used.pop("client_opt", None)
        yield from unusual(place, used, partial(_defaults, registry, str(owner.get("id"))))


def _defaults(registry: Registry[Any], id: str) -> Mapping[str, Any]:
    defaults: Mapping[str, Any] = registry.make(id).to_dict()
    return defaults


def _sizes(value: PublishedValue, run: RunSetting, other_data: bool) -> Iterator[str]:
    if other_data:
        yield f"published on {value.dataset}, this run on {run.dataset}"
    if value.model not in ("", run.model):
        yield f"published with the network {value.model}, this run {run.model}"
    if value.partition == CENTRALISED:
        return
    if value.clients_total not in (None, run.clients):
        yield f"published with {value.clients_total} clients, this run {run.clients}"
    if value.clients_per_round is not None and not is_equal(run.per_round, value.clients_per_round):
        own = "another number" if run.per_round is None else f"{run.per_round:g}"
        yield f"published with {value.clients_per_round} clients per round, this run {own}"


def _least(table: Sequence[PublishedValue], run: RunSetting, other_data: bool) -> Iterator[Match]:
    """Yield of each metric, target and test set the values whose runs are the nearest.

    Those that differ least in size come first, and among them those with the fewest differences: another learning rate
    is less than another network.
    """
    groups: dict[tuple[str, str, str], dict[Match, tuple[int, int]]] = {}
    for value in table:
        match = _with_sizes(value, run, other_data)
        distance = len(list(_sizes(value, run, other_data))), len(match.differences)
        groups.setdefault((value.metric, value.target, conditions_of(value).test), {})[match] = distance
    for group in groups.values():
        least = min(group.values())
        yield from (match for match, distance in group.items() if distance == least)


def fewer_seeds(paper: str, seeds: int) -> str:
    """Say that a paper states more seeds than there are here; nothing where it does not."""
    stated = [entry.chosen for entry in lookup_parameters(paper) if entry.parameter == "seeds"]
    if not stated or not stated[0].isdecimal() or int(stated[0]) <= seeds:
        return ""
    return f"published over {stated[0]} seeds, here {seeds}"
