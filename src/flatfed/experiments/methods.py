"""Methods by their short spelling: `feddyn+sam`, `fedasam+swa`, `adabest+asam+swa`, with `name=value` settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.core.config import is_course, parameters
from flatfed.core.errors import ConfigError, nearest

OWNERS = ("client_opt", "average", "partition", "model", "data")
"""What settings may belong to besides the method; the last three describe the task and never reach a method."""


@dataclass(frozen=True)
class Method:
    """A method as it is compared: algorithm (with its client optimiser) and average."""

    spelling: str
    algorithm: Algorithm
    average: Average | None = None


def spelling_of(algorithm: Algorithm, average: Average | None) -> str:
    """Return the short spelling of a method: algorithm, client optimiser unless plain, average."""
    optimiser = getattr(algorithm, "client_opt", None)
    parts = [algorithm.id or type(algorithm).__name__.lower()]
    if optimiser is not None and optimiser.id != "sgd":
        parts.append(optimiser.id)
    return "+".join(parts + ([average.id] if average else []))


def parse_method(spelling: str, settings: Mapping[str, Any] | None = None) -> Method:
    """Return the method that a spelling names, with its settings.

    A setting is `name` (the algorithm's), `client_opt.name` or `average.name`.
    """
    id, *suffixes = spelling.split("+")
    if id in ClientOptimiser.registry or id in Average.registry:
        raise ConfigError(_not_an_algorithm(id, suffixes))
    algorithm, optimiser, average = Algorithm.registry.find(id), None, None
    for suffix in suffixes:
        if suffix in ClientOptimiser.registry and optimiser is None and average is None:
            optimiser = suffix
        elif suffix in Average.registry and average is None:
            average = suffix
        elif suffix in ClientOptimiser.registry or suffix in Average.registry:
            raise ConfigError(f"{spelling!r}: write the algorithm, then a client optimiser, then an average, once each")
        else:
            raise ConfigError(nearest(suffix, [*ClientOptimiser.registry, *Average.registry], "suffix"))
    values = _sorted(settings or {})
    own, of_optimiser, of_average = values[""], values["client_opt"], values["average"]
    if optimiser is not None or of_optimiser:
        if "client_opt" not in parameters(algorithm):
            raise ConfigError(f"{id} takes no client optimiser; it has its own way to the gradient")
        if "client_opt" in own:
            raise ConfigError(f"{spelling}: client_opt={own['client_opt']!r} is set besides; give one of the two")
        own["client_opt"] = ClientOptimiser.registry.make(optimiser or "sgd", **of_optimiser)
    if of_average and average is None:
        raise ConfigError(f"{spelling!r} has no average to set {', '.join(of_average)} of; write {spelling}+swa")
    made = Average.registry.make(average, **of_average) if average else None
    return Method(spelling, Algorithm.registry.make(id, **own), made)


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
        known = {n for spelling in spellings for n in settable(spelling)} | {"client_opt"}
        if len(spellings) > 1 and not target and bare not in known:
            raise ConfigError(nearest(bare, known, "parameter"))


def _not_an_algorithm(id: str, suffixes: list[str]) -> str:
    kind = "a client optimiser" if id in ClientOptimiser.registry else "an average"
    return f"{id!r} is {kind}, not an algorithm; write {(suffixes or ['fedavg'])[0]}+{id}"


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
    if owner in OWNERS:
        return f"--set {name}: the {owner} is the same for all methods; leave the method's name out"
    spellings = ", ".join(f"{known}.name" for known in OWNERS)
    return f"--set {name}: there is nothing called {owner!r} to set; write name, or one of {spellings}"


def _sorted(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Divide settings into the algorithm's own, its client optimiser's and the average's."""
    found: dict[str, dict[str, Any]] = {"": {}, "client_opt": {}, "average": {}}
    for name, value in settings.items():
        owner, _, bare = name.rpartition(".")
        if owner not in found:
            raise ConfigError(_not_an_owner(name, owner))
        found[owner][bare] = value
    return found
