"""Methods by their short spelling: `feddyn+sam`, `fedasam+swa`, `adabest+asam+swa`, with `name=value` settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

import flatfed.algorithms  # noqa: F401  (fills the registries)
from flatfed.core.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.core.config import parameters
from flatfed.core.errors import ConfigError, nearest


@dataclass(frozen=True)
class Method:
    """A method as it is compared: algorithm (with its client optimiser) and average."""

    spelling: str
    algorithm: Algorithm
    average: Average | None = None


def spelling_of(algorithm: Algorithm, average: Average | None) -> str:
    """Return the short spelling of a method: algorithm, client optimiser unless plain, average."""
    optimiser = getattr(algorithm, "client_opt", None)
    parts = [algorithm.id]
    if optimiser is not None and optimiser.id != "sgd":
        parts.append(optimiser.id)
    return "+".join(parts + ([average.id] if average else []))


def parse_method(spelling: str, settings: Mapping[str, Any] | None = None) -> Method:
    """Return the method that a spelling names, with its settings.

    A setting is `name` (the algorithm's), `client_opt.name` or `average.name`.
    """
    id, *suffixes = spelling.split("+")
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
    if len(set(spellings)) < len(spellings):
        raise ConfigError("a method is named twice; each is compared once")
    methods, used = [], set()
    for spelling in spellings:
        mine: dict[str, Any] = {}
        for name, value in sorted(settings.items(), key=lambda item: ":" in item[0]):
            target, _, bare = name.rpartition(":")
            named = target in (spelling, spelling.split("+")[0])
            if named or (not target and (len(spellings) == 1 or bare in settable(spelling))):
                mine[bare] = value
                used.add(name)
        methods.append(parse_method(spelling, mine))
    for name in settings:
        if name not in used:
            known = {n for s in spellings for n in settable(s)}
            raise ConfigError(nearest(name.rpartition(":")[2], known, "parameter") + "; no method here takes it")
    return methods


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
    """Return the number, truth value, null or text that is written."""
    try:
        return float(text) if any(c in text for c in ".eE") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text


def _sorted(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Divide settings into the algorithm's own, its client optimiser's and the average's."""
    found: dict[str, dict[str, Any]] = {"": {}, "client_opt": {}, "average": {}}
    for name, value in settings.items():
        owner, _, bare = name.rpartition(".")
        if owner not in found:
            raise ConfigError(f"{name!r}: settings are written name, client_opt.name or average.name")
        found[owner][bare] = value
    return found
