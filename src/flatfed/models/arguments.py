"""What a builder of a model is called with: facts of the data, and options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, NoReturn

from flatfed.core.errors import PARAMETER, ConfigError, nearest

FACTS = ("classes", "in_channels", "image_size", "vocabulary", "length")
"""What data tell a model: a builder that names one of them is given it. Its other parameters are options."""

CLASSES = "num_classes"
"""What the builders of torchvision and others call the number of classes."""

NO_OPTIONS = frozenset((*FACTS, CLASSES, "args", "kwargs"))


def known_facts(id: str, facts: Mapping[str, int | None]) -> dict[str, int]:
    """Return the facts that there are; each must be at least 1."""
    return {name: _positive(id, name, value) for name, value in facts.items() if value is not None}


def _positive(id: str, name: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{id}: {name} must be at least 1, not {value}")
    return value


def builder_arguments(
    id: str, builder: Callable[..., Any], facts: Mapping[str, int], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a builder is called with: the facts that it names and the options that were given."""
    try:
        parameters = BuilderParameters(inspect.signature(builder).parameters)
    except ValueError:
        # Some callables written in C do not say what they take: they are given the options and nothing else.
        return dict(options)
    _check_options(id, parameters, options)
    arguments = parameters.facts_named(facts) | dict(options)
    missing = parameters.missing(arguments)
    if missing:
        _refuse_missing(id, missing, facts)
    return arguments


@dataclass(frozen=True)
class BuilderParameters:
    """The parameters of a builder of models."""

    by_name: Mapping[str, Parameter]

    @property
    def options(self) -> list[str]:
        """The names of the options."""
        return [name for name in self.by_name if name not in NO_OPTIONS]

    def takes(self, option: str) -> bool:
        """Say whether there is an option of this name; `**kwargs` take any."""
        return option in self.options or self._has_kwargs()

    def _has_kwargs(self) -> bool:
        return any(parameter.kind is Parameter.VAR_KEYWORD for parameter in self.by_name.values())

    def facts_named(self, facts: Mapping[str, int]) -> dict[str, Any]:
        """Return the facts that are parameters."""
        known = {**facts, CLASSES: facts["classes"]}
        return {name: known[name] for name in self.by_name if name in known}

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the parameters that must be given and are not."""
        required = filter(_is_required, self.by_name.values())
        return [parameter.name for parameter in required if parameter.name not in arguments]


def _is_required(parameter: Parameter) -> bool:
    # `*args` and `**kwargs` have no default either, and need not be given.
    return parameter.default is Parameter.empty and parameter.kind is Parameter.POSITIONAL_OR_KEYWORD


def _check_options(id: str, parameters: BuilderParameters, options: Mapping[str, Any]) -> None:
    """Refuse an option that the builder does not have."""
    known = parameters.options
    for name in options:
        if not parameters.takes(name):
            listed = ", ".join(known) or "no options"
            raise ConfigError(f"{id}: {nearest(name, known, 'option of the model')} ({id} takes {listed})")


def _refuse_missing(id: str, missing: Sequence[str], facts: Mapping[str, int]) -> NoReturn:
    """Say what a builder would lack: a fact, which only other data have, or else an option."""
    known = ", ".join(sorted(facts))
    lacking = ", ".join(filter(_is_fact, missing))
    if lacking:
        raise ConfigError(f"{id} needs {lacking}, but the data has only {known}; choose another model")
    raise ConfigError(
        f"{id} needs the options {', '.join(missing)}, which have no default: {PARAMETER}=VALUE "
        f"(the data gives {known})",
        parameter=f"model.{missing[0]}",
    )


def _is_fact(name: str) -> bool:
    return name in FACTS
