"""Several methods and their settings as they are typed: `rho=0.1` for all that have it, `fedgloss:beta=100` for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.algorithms.spelling import OWNERS, Method, parse_method, spelling_of
from flatfed.core.configuration.config import is_course, parameters
from flatfed.core.errors import ConfigError, nearest

OF_THE_TASK = ("partition", "model", "data")
"""What settings may belong to besides a method and its parts; they describe the task and never reach a method."""


def parse_methods(spellings: list[str], settings: Mapping[str, Any]) -> list[Method]:
    """Return several methods; a setting goes to every method that has it, or to the one named before a colon.

    `rho=0.1` reaches all that take `rho`, `fedgloss:beta=100` only fedgloss (and fedgloss+sam). A setting that
    reaches no method is an error.
    """
    _refuse_unreached(spellings, settings)
    methods = []
    for spelling in spellings:
        mine: dict[str, Any] = {}
        for name, value in sorted(settings.items(), key=lambda item: _closeness(item[0])):
            target, _, bare = name.rpartition(":")
            everywhere = not target and (len(spellings) == 1 or bare in settable(spelling))
            if everywhere or target in _names(spelling):
                mine[bare] = value
        methods.append(parse_method(spelling, mine))
    same = [spelling_of(method.algorithm, method.average) for method in methods]
    for spelling in same:
        if same.count(spelling) > 1:
            raise ConfigError(f"{spelling} is named twice; each method is compared once")
    return methods


def _closeness(name: str) -> tuple[bool, bool]:
    """Return the order in which settings are applied: for all, for an algorithm, for a spelling with its suffixes."""
    target = name.rpartition(":")[0]
    return bool(target), "+" in target


def _names(spelling: str) -> tuple[str, str]:
    """Return how a method is named in a setting: by its spelling or by its algorithm."""
    return spelling, spelling.split("+")[0]


def _refuse_unreached(spellings: list[str], settings: Mapping[str, Any]) -> None:
    """Refuse settings that reach no method."""
    scopes = {name for spelling in spellings for name in _names(spelling)}
    for name in settings:
        target, _, bare = name.rpartition(":")
        if target and target not in scopes:
            raise ConfigError(f"--set {name}: {nearest(target, scopes, 'method')}")
        owner = bare.rpartition(".")[0]
        if owner and owner not in OWNERS:
            raise ConfigError(_not_an_owner(name, owner))
        known = {n for spelling in spellings for n in settable(spelling)} | {"client_opt"}
        if len(spellings) > 1 and not target and bare not in known:
            raise ConfigError(nearest(bare, known, "parameter"))


def relevant(settings: Mapping[str, Any], spellings: list[str]) -> dict[str, Any]:
    """Return the settings of a shared file that concern these methods; those of other methods are left out."""
    other = {name for id in Algorithm.registry for name in settable(id)}
    other |= {f"client_opt.{n}" for cls in ClientOptimiser.registry.values() for n in parameters(cls)}
    other |= {f"average.{n}" for cls in Average.registry.values() for n in parameters(cls)}
    here = {name for spelling in spellings for name in settable(spelling)}
    scopes = {name for spelling in spellings for name in _names(spelling)}

    def concerns(name: str) -> bool:
        target, _, bare = name.rpartition(":")
        if target:
            return target in scopes or target.split("+")[0] not in Algorithm.registry
        return bare in here or bare not in other

    return {name: value for name, value in settings.items() if concerns(name)}


def settable(spelling: str) -> list[str]:
    """Return the names that can be set for a method."""
    method = parse_method(spelling)
    names = [n for n in parameters(type(method.algorithm)) if n != "client_opt"]
    optimiser = getattr(method.algorithm, "client_opt", None)
    if optimiser is not None:
        names += [f"client_opt.{n}" for n in parameters(type(optimiser))]
    return names + ([f"average.{n}" for n in parameters(type(method.average))] if method.average else [])


def parse_setting(text: str) -> tuple[str, Any]:
    """Split `name=value`; the value is read as YAML would, with 1e-3 a number."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set takes name=value, not {text!r}")
    return name.strip(), parse_value(value.strip())


def parse_value(text: str) -> Any:
    """Return the number, truth value, null, course or text that is written."""
    if is_course(text):
        return text
    try:
        return float(text) if any(c in text for c in ".eE") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text


def _not_an_owner(name: str, owner: str) -> str:
    if owner in OF_THE_TASK:
        return f"--set {name}: the {owner} is the same for all methods; leave the method's name out"
    spellings = ", ".join(f"{known}.name" for known in (*OWNERS, *OF_THE_TASK))
    return f"--set {name}: there is nothing called {owner!r} to set; write name, or one of {spellings}"
