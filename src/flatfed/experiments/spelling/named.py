"""What is set by name (`set`, or `--set`), sorted by what it belongs to: methods, partition, model, data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.experiments.spelling.methods import relevant
from flatfed.experiments.spelling.options import DATA, MODEL, PARTITION, RunOptions


@dataclass(frozen=True)
class NamedSettings:
    """What is set by name.

    Args:
        methods: settings of methods, as they are written.
        partition: parameters of the partition.
        model: options of the model.
        data: options of the data.
        short: alpha and beta where they are given as options; they are in `partition` too.
        yielding: names among the settings that give way to what stands in brackets behind a method.
    """

    methods: dict[str, Any]
    partition: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    short: dict[str, float]
    yielding: frozenset[str]


def named_settings(options: RunOptions, spellings: Sequence[str]) -> NamedSettings:
    """Return what the options set for these methods and their task.

    Options may serve many methods: what they set for others is left out, unless it is meant for these very methods.
    """
    shared = {name: value for name, value in options.settings.items() if name not in options.firm}
    concerned = relevant(shared, spellings)
    settings = {name: options.settings[name] for name in options.settings if name in concerned or name in options.firm}
    return NamedSettings(
        _of_methods(settings),
        # Where both are there, the parameter by its full name was said later: said together, they are refused.
        options.short | _of(PARTITION, settings),
        _of(MODEL, settings),
        _of(DATA, settings),
        options.short,
        frozenset(concerned),
    )


def _of(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def _of_methods(settings: Mapping[str, Any]) -> dict[str, Any]:
    others = (PARTITION, MODEL, DATA)
    return {name: value for name, value in settings.items() if not name.startswith(others)}
