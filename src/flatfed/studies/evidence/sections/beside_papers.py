"""What a paper printed of a study's methods, and in what those runs differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flatfed.published.claims.claim import Setting
from flatfed.published.claims.claim_file import settings as claim_settings
from flatfed.published.claims.printed import printed_values
from flatfed.published.conditions import rounds_at
from flatfed.published.numbers import PublishedValue
from flatfed.published.setting_names import TOTAL_BY_CLASS, partition_of
from flatfed.reports.tables.grid import NOTHING, known_items
from flatfed.runs.directory import RunDirectory
from flatfed.studies.claimed.variants import MAKES_ANOTHER, find_variant, taken_apart
from flatfed.studies.evidence.published_study import PublishedStudy

Config = Mapping[str, Any]


def claim_settings_of(study: PublishedStudy, setting: str) -> list[Setting]:
    """Return the settings of claims that a study's setting stands for, but for those that state no split."""
    said = [theirs for theirs, ours in study.about.stands_for.items() if ours == setting]
    names = dict.fromkeys([*said, setting])
    known = [claim_settings()[name] for name in names if name in claim_settings()]
    # One that states a data set alone would have the numbers of every split.
    return [theirs for theirs in known if theirs.partition is not None]


def printed_of(study: PublishedStudy, setting: str, variant: str, paper: str) -> list[PublishedValue]:
    """Return the accuracies that a paper printed of a variant in a setting, with as many clients and local epochs.

    Nothing where no run of the setting has ended: what it was trained with is not known then.
    """
    method = _as_claimed(study.study.methods[variant])
    config = _config(study, setting, variant)
    if config is None or find_variant(method, study.study.methods) != variant:
        # Several are what the paper calls so, or this one is not.
        return []
    counts = _counts(config)
    found = [value for theirs in claim_settings_of(study, setting) for value in _alike(paper, theirs, method, counts)]
    return list(dict.fromkeys(found))


def _config(study: PublishedStudy, setting: str, variant: str) -> Config | None:
    """Return the record of a run of a variant, or else of another in the same setting."""
    of_setting = {other: runs for (of, other), runs in study.table.runs.items() if of == setting}
    runs = of_setting.get(variant) or next(iter(of_setting.values()), None)
    return RunDirectory.open(next(iter(runs.values()))).config if runs else None


def _counts(config: Config) -> dict[str, int]:
    """Return how many clients and local epochs runs have, by the columns of the papers' tables."""
    counts = {
        "clients_total": config["task"].get("clients"),
        "clients_per_round": config["sampler"].get("count"),
        "local_epochs": config["settings"]["local_epochs"],
    }
    return known_items(counts)


def _alike(paper: str, theirs: Setting, method: str, counts: Mapping[str, int]) -> list[PublishedValue]:
    """Return the printed values with these counts; those that leave one open only where none states them all."""
    if not _agrees(theirs, counts):
        return []
    whole = printed_values(paper, _narrowed(theirs, counts), method, "accuracy")
    return whole or [value for value in printed_values(paper, theirs, method, "accuracy") if _agrees(value, counts)]


def _agrees(stated: PublishedValue | Setting, counts: Mapping[str, int]) -> bool:
    """Say whether these are the counts, as far as they are stated."""
    return all(getattr(stated, name) in (None, count) for name, count in counts.items())


def _narrowed(theirs: Setting, counts: Mapping[str, int]) -> Setting:
    """Return a setting that states these counts too."""
    stated: dict[str, Any] = dict(counts)
    return replace(theirs, **stated)


def printed_text(values: list[PublishedValue]) -> str:
    """Return printed numbers with their tables."""
    return "; ".join(f"{value.printed or value.status} ({value.table})" for value in values) or NOTHING


def _as_claimed(spelling: str) -> str:
    """Return a method without the parameters that any paper sets, and with those that make another method of it."""
    name, given = taken_apart(spelling)
    base, plus, rest = name.partition("+")
    own = [key for key in MAKES_ANOTHER.get(base, ()) if key in given]
    inside = ",".join(f"{key}={str(given[key]).lower()}" for key in own)
    return f"{base}({inside}){plus}{rest}" if inside else name


def differences_in_size(study: PublishedStudy, paper: str) -> list[str]:
    """Say in what the printed runs of a paper that are shown differ from those of a study: rounds, network, split."""
    found: dict[str, None] = {}
    for setting, variant in study.study.columns():
        config = _config(study, setting, variant)
        shown = printed_of(study, setting, variant, paper)
        found |= dict.fromkeys(words for value in shown if config for words in _differences(value, setting, config))
    return list(found)


def _differences(value: PublishedValue, setting: str, config: Config) -> Iterator[str]:
    pairs = {
        "rounds": (rounds_at(value), config["settings"]["rounds"]),
        "network": (value.model or None, config["task"].get("model")),
        "split": (_printed_split(value), _split(claim_settings().get(setting))),
    }
    for name, (theirs, ours) in pairs.items():
        if theirs is not None and ours is not None and theirs != ours:
            yield f"{name}: {_text(theirs)} in the paper, {_text(ours)} here"


def _printed_split(value: PublishedValue) -> str | None:
    """Return how the examples of a printed value are divided, its concentration over all classes."""
    partition = partition_of(value)
    if value.paper in TOTAL_BY_CLASS and partition is not None and "alpha" in partition:
        return f"{value.partition} {partition['alpha']:g}"
    return _split(value)


def _split(of: PublishedValue | Setting | None) -> str | None:
    """Return how examples are divided, in the words of the papers' tables; None where it is not stated."""
    return " ".join(filter(None, (of.partition, of.partition_value))) or None if of else None


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
