"""The options that describe a run: which values each takes, and its default.

They are what `flatfed run` takes, without the data set, the methods, the seeds, and where clients run. Nothing here
imports torch: the command line makes its options from these declarations.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from flatfed.core.configuration.checking import Range, TextRule
from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.registry import Registry
from flatfed.core.configuration.settings import About, Settings, about_settings, defaults
from flatfed.experiments.spelling.kinds import (
    AugmentationKind,
    ChoiceKind,
    MemberKind,
    NumberKind,
    OptionKind,
    PathKind,
    TextKind,
    TrackKind,
    TruthKind,
    WholeKind,
    WholeNumbersKind,
    WrittenKind,
)

SET = "set"
"""The name under which parameters of methods, partition, model and data are set by their own names."""

WATCHED = 2_000
"""Monitors take the loss over this number of examples where nothing else is said."""


@dataclass(frozen=True)
class RunOption:
    """An option: which values it takes, and what it is where nothing is said."""

    kind: OptionKind
    default: Any = None


def _setting_kind(name: str, hint: Any, about: About) -> OptionKind:
    """Return what values a training setting takes, from its annotation."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _setting_kind(name, _other_than_none(hint), about)
    if origin is Literal:
        return ChoiceKind(get_args(hint))
    if origin is Annotated:
        return _annotated_kind(name, hint, about)
    if hint is bool:
        return TruthKind()
    if isinstance(getattr(hint, "registry", None), Registry):
        return MemberKind(hint.registry.kind)
    return TextKind()


def _other_than_none(hint: Any) -> Any:
    return next(part for part in get_args(hint) if part is not type(None))


def _annotated_kind(name: str, hint: Any, about: About) -> OptionKind:
    kind, allowed = get_args(hint)
    if isinstance(allowed, TextRule):
        return WrittenKind(allowed)
    assert isinstance(allowed, Range)
    if kind is int:
        return WholeKind(int(allowed.low), about.none)
    return NumberKind(Settings.may_vary(name))


def _training() -> dict[str, RunOption]:
    """Return an option for each training setting that has one."""
    hints = parameters(Settings)
    usual = defaults()
    return {
        name: RunOption(_setting_kind(name, hints[name], about), usual.get(name, about.usual))
        for name, about in about_settings().items()
        if about.group
    }


TRAINING = _training()
"""The options of the training settings."""

OPTIONS: Mapping[str, RunOption] = TRAINING | {
    "clients": RunOption(WholeKind(1)),
    "per_round": RunOption(WholeKind(1)),
    "bernoulli": RunOption(NumberKind()),
    "sampling": RunOption(TextKind()),
    "alpha": RunOption(NumberKind()),
    "beta": RunOption(NumberKind()),
    "partition": RunOption(TextKind()),
    "partition_seed": RunOption(WholeKind(0)),
    "validation": RunOption(NumberKind()),
    "validation_split": RunOption(ChoiceKind(("client", "global")), default="client"),
    "augment": RunOption(AugmentationKind(), default=True),
    "no_augment": RunOption(TruthKind(), default=False),
    "data_dir": RunOption(PathKind()),
    "model": RunOption(TextKind()),
    "metrics": RunOption(TextKind()),
    "weights": RunOption(PathKind()),
    "new_head": RunOption(TruthKind(), default=False),
    "local_layers": RunOption(ChoiceKind(("bn-stats", "bn"))),
    "watch": RunOption(TextKind()),
    "watch_data": RunOption(TextKind(), default="train"),
    "watch_samples": RunOption(WholeKind(1, "all"), default=WATCHED),
    "checkpoint_every": RunOption(WholeKind(1)),
    "keep_checkpoints": RunOption(WholeNumbersKind()),
    "track": RunOption(TrackKind()),
}
"""Every option that describes a run, but `set`."""

RENAMED: Mapping[str, str] = {**Settings.renamed, "local_parts": "local_layers"}
"""Options by the names that they had in earlier versions."""


def _names() -> dict[str, str]:
    """Return every spelling of an option with its name of today."""
    today = {name: name for name in (*OPTIONS, SET)}
    return today | {old: name for old, name in RENAMED.items() if name in OPTIONS}


NAMES: Mapping[str, str] = _names()
"""Every spelling of an option, today's and earlier ones, with its name of today."""
