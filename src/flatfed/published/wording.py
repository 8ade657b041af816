"""Published values in words, for tables, and as records, for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flatfed.published.method_names import AVERAGES, PREVIOUS_GRADIENT, name_of
from flatfed.published.numbers import PublishedParameter, PublishedValue

UNCERTAIN = "?"
"""Behind a value whose row or column is not known for certain."""

Record = dict[str, Any]


def value_text(value: PublishedValue) -> str:
    """Return the number as printed with its deviation, or what stands in its place; uncertain ones are marked."""
    text = " ".join(filter(None, (value.printed, _status(value))))
    if value.is_certain:
        return text
    return f"{text} {UNCERTAIN}"


def _status(value: PublishedValue) -> str:
    words = value.status.replace("_", " ")
    if value.printed and words:
        return f"({words})"
    return words


def metric_text(value: PublishedValue) -> str:
    """Return the metric, with its target where it has one."""
    if not value.target:
        return value.metric
    return f"{value.metric} ({value.target.replace('_', ' ')})"


def setting_parts(value: PublishedValue) -> list[str]:
    """Return the setting of a value part by part, as far as its paper states it."""
    parts = (
        value.dataset,
        " ".join(filter(None, (value.partition, value.partition_value))),
        value.model,
        _clients(value),
        _counted(value.rounds, "round"),
        _counted(value.local_epochs, "local epoch"),
        *_further(value),
    )
    return [part for part in parts if part]


def _clients(value: PublishedValue) -> str:
    total, each_round = value.clients_total, value.clients_per_round
    if total is None:
        return _counted(each_round, "client", " per round")
    if each_round is None:
        return _counted(total, "client")
    return f"{each_round} of {total} clients"


def _counted(count: int | None, noun: str, rest: str = "") -> str:
    if count is None:
        return ""
    plural = "" if count == 1 else "s"
    return f"{count} {noun}{plural}{rest}"


def _further(value: PublishedValue) -> list[str]:
    """Return the extras that the method's spelling does not say."""
    said = (*AVERAGES, PREVIOUS_GRADIENT)
    return [word.replace("_", " ") for word in value.extras if word not in said]


def value_record(value: PublishedValue) -> Record:
    """Return a value for JSON and CSV, with its method as flatfed spells it."""
    record = asdict(value) | {"extras": ";".join(value.extras), "method": name_of(value)}
    del record["printed"]
    return record


def parameter_record(entry: PublishedParameter) -> Record:
    """Return a hyper-parameter for JSON and CSV."""
    return asdict(entry)
