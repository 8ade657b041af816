"""What a paper printed of a study's methods, and in what those runs differ by size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flatfed.published.claims.claim import Setting
from flatfed.published.claims.claim_file import settings as claim_settings
from flatfed.published.claims.printed import printed_values
from flatfed.published.numbers import PublishedValue
from flatfed.reports.tables.grid import NOTHING
from flatfed.runs.directory import RunDirectory
from flatfed.studies.claimed.variants import MAKES_ANOTHER, find_variant, taken_apart
from flatfed.studies.evidence.published_study import PublishedStudy


def claim_settings_of(study: PublishedStudy, setting: str) -> list[Setting]:
    """Return the settings of claims that a study's setting stands for."""
    said = [theirs for theirs, ours in study.about.stands_for.items() if ours == setting]
    names = dict.fromkeys([*said, setting])
    return [claim_settings()[name] for name in names if name in claim_settings()]


def printed_of(study: PublishedStudy, setting: str, variant: str, paper: str) -> list[PublishedValue]:
    """Return the accuracies that a paper printed of a variant in a setting."""
    method = _as_claimed(study.study.methods[variant])
    if find_variant(method, study.study.methods) != variant:
        # Several are what the paper calls so, or this one is not.
        return []
    found = [
        value
        for theirs in claim_settings_of(study, setting)
        for value in printed_values(paper, theirs, method, "accuracy")
    ]
    return list(dict.fromkeys(found))


def printed_text(values: list[PublishedValue]) -> str:
    """Return printed numbers with their tables."""
    return "; ".join(f"{value.printed} ({value.table})" for value in values) or NOTHING


def _as_claimed(spelling: str) -> str:
    """Return a method without the parameters that any paper sets, and with those that make another method of it."""
    name, given = taken_apart(spelling)
    base, plus, rest = name.partition("+")
    own = [key for key in MAKES_ANOTHER.get(base, ()) if key in given]
    inside = ",".join(f"{key}={str(given[key]).lower()}" for key in own)
    return f"{base}({inside}){plus}{rest}" if inside else name


def differences_in_size(study: PublishedStudy, paper: str) -> list[str]:
    """Say in what the printed runs of a paper differ from those of a study: rounds, network, clients."""
    found: dict[str, None] = {}
    for (setting, variant), runs in study.table.runs.items():
        config = RunDirectory.open(next(iter(runs.values()))).config
        for value in printed_of(study, setting, variant, paper):
            found |= dict.fromkeys(_differences(value, config))
    return list(found)


def _differences(value: PublishedValue, config: Mapping[str, Any]) -> Iterator[str]:
    task = config["task"]
    pairs = {
        "rounds": (value.rounds, config["settings"]["rounds"]),
        "network": (value.model or None, task.get("model")),
        "clients": (value.clients_total, task.get("clients")),
        "clients per round": (value.clients_per_round, config["sampler"].get("count")),
        "local epochs": (value.local_epochs, config["settings"]["local_epochs"]),
    }
    for name, (theirs, ours) in pairs.items():
        if theirs is not None and ours is not None and theirs != ours:
            yield f"{name}: {_text(theirs)} in the paper, {_text(ours)} here"


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
