"""Which values of one table stand beside a run that may have another size: network, clients, participation.

Where a run is not as large as the published one, `matching` finds nothing. Here the method and the partition must be
the same, and the data where the papers know them at all; every other difference is a reason that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    matches = [_with_sizes(value, run, other) for value in same]
    return [TableMatch(match, other) for match in _least(matches)]


def _is_divided_alike(value: PublishedValue, run: RunSetting) -> bool:
    # A table that states no partition may have any; that it states none is told.
    return value.partition in (CENTRALISED, "") or is_same_partition(value, run)


def _is_known(dataset: str) -> bool:
    """Say whether some paper has a value for a data set."""
    return any(data_of(value)[0] == dataset for value in values())


def _with_sizes(value: PublishedValue, run: RunSetting, other_data: bool) -> Match:
    """Return a match, with the differences in size among those that are named."""
    found = compared(value, run)
    return replace(found, differences=(*_sizes(value, run, other_data), *found.differences))


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


def _least(matches: Sequence[Match]) -> Iterator[Match]:
    """Yield of each metric, target and test set the values with the fewest differences."""
    groups: dict[tuple[str, str, str], list[Match]] = {}
    for match in matches:
        value = match.value
        groups.setdefault((value.metric, value.target, conditions_of(value).test), []).append(match)
    for group in groups.values():
        fewest = min(len(match.differences) for match in group)
        yield from (match for match in group if len(match.differences) == fewest)


def fewer_seeds(paper: str, seeds: int) -> str:
    """Say that a paper states more seeds than there are here; nothing where it does not."""
    stated = [entry.chosen for entry in lookup_parameters(paper) if entry.parameter == "seeds"]
    if not stated or not stated[0].isdecimal() or int(stated[0]) <= seeds:
        return ""
    return f"published over {stated[0]} seeds, here {seeds}"
