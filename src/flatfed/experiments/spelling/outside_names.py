"""Parts from outside in what people write: methods, options and settings, with ids in the place of import paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flatfed.algorithms.spelling import PARTS
from flatfed.core.configuration.base_optimiser import BaseOptimiser
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.grammar import parse_call
from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.configuration.settings import Settings
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import ConfigError
from flatfed.core.round.sampling import Sampler, as_sampler
from flatfed.data.partition import Partitioner
from flatfed.experiments.spelling.declared import TRAINING
from flatfed.experiments.spelling.options import DATA, MODEL, PARTITION, RunOptions
from flatfed.flatness.measurements import Measurement
from flatfed.named_code import USER, NamedBy
from flatfed.outside.named_parts import with_ids

SCHEDULES = (Schedule.registry,)
BASE_OPT = "base_opt"
OF_OPTIONS: Mapping[str, Sequence[Registry[Any]]] = {
    **dict.fromkeys(filter(Settings.may_vary, TRAINING), SCHEDULES),
    BASE_OPT: (BaseOptimiser.registry, Schedule.registry),
    "partition": (Partitioner.registry,),
    "sampling": (Sampler.registry,),
    "watch": (Measurement.registry,),
}
"""Which families an option may name."""


def methods_with_ids(spellings: Sequence[str], by: NamedBy) -> list[str]:
    """Return methods as they are written, with ids in the place of import paths."""
    return [with_ids(spelling, PARTS, by) for spelling in spellings]


def options_with_ids(options: RunOptions, by: NamedBy) -> RunOptions:
    """Return options with ids in the place of import paths; models, data and metrics are found where they are built."""
    values = {name: _named(value, OF_OPTIONS.get(name, ()), by) for name, value in options.values.items()}
    return replace(options, values=values, settings=settings_with_ids(options.settings, by))


def settings_with_ids(settings: Mapping[str, Any], by: NamedBy) -> dict[str, Any]:
    """Return what is set by name with ids in the place of import paths: schedules, client optimisers."""
    return {name: _named(value, _families_of(name), by) for name, value in settings.items()}


def _families_of(name: str) -> Sequence[Registry[Any]]:
    """Return which families the value of a setting may name; paths of files have colons too, and so have columns."""
    if name == BASE_OPT:
        return OF_OPTIONS[name]
    if name in TRAINING:
        return PARTS if Settings.may_vary(name) else ()
    return () if name.startswith((DATA, MODEL, PARTITION)) else PARTS


def _named(value: Any, families: Sequence[Registry[Any]], by: NamedBy) -> Any:
    return with_ids(value, families, by) if isinstance(value, str) and families else value


def sampler_of(sampling: int | str | Sampler) -> Sampler:
    """Return who takes part: a number, a sampler, or one as it is written, `bernoulli(0.1)`, `my_file:Mine(p=0.1)`."""
    if not isinstance(sampling, str):
        return as_sampler(sampling)
    return read_sampler(with_ids(sampling, [Sampler.registry], USER))


def read_sampler(text: str) -> Sampler:
    """Return the sampler that is written by its id."""
    call = parse_call(text)
    if call is None:
        raise ConfigError(f"{text!r} is not a sampler such as bernoulli(0.1)")
    cls = Sampler.registry.find(call.name)
    given = call.by_name(list(parameters(cls)))
    return Sampler.registry.make(cls.id, **{name: parse_value(value) for name, value in given.items()})
