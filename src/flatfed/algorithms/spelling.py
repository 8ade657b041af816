"""The one grammar of methods: `feddyn+sam`, `fedasam+swa`, `adabest+asam+swa`, with settings by (dotted) name.

Algorithm, then client optimiser, then average; it holds in Python, on the command line and in run directories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flatfed.core.configuration.config import parameters
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser

OWNERS = ("client_opt", "average")
"""What a setting may belong to besides the algorithm: `client_opt.rho`, `average.cycle`."""


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
    id, optimiser, average = _parts(spelling)
    own, of_optimiser, of_average = _sorted(settings or {})
    if optimiser is not None or of_optimiser:
        if "client_opt" not in parameters(Algorithm.registry[id]):
            raise ConfigError(f"{id} takes no client optimiser; it has its own way to the gradient")
        if "client_opt" in own:
            raise ConfigError(f"{spelling}: client_opt={own['client_opt']!r} is set besides; give one of the two")
        own["client_opt"] = ClientOptimiser.registry.make(optimiser or "sgd", **of_optimiser)
    if of_average and average is None:
        raise ConfigError(f"{spelling!r} has no average to set {', '.join(of_average)} of; write {spelling}+swa")
    made = Average.registry.make(average, **of_average) if average else None
    return Method(spelling, Algorithm.registry.make(id, **own), made)


def parse_algorithm(spelling: str, settings: Mapping[str, Any] | None = None) -> Algorithm:
    """Return the algorithm that a spelling without an average names."""
    method = parse_method(spelling, settings)
    if method.average is not None:
        raise ConfigError(
            f"{spelling!r} names an average, which is no part of an algorithm; give the spelling to ff.train as text, "
            f"or average=ff.{type(method.average).__name__}(...)"
        )
    return method.algorithm


def _parts(spelling: str) -> tuple[str, str | None, str | None]:
    """Return the ids of the algorithm, the client optimiser and the average."""
    id, *suffixes = spelling.split("+")
    if id in ClientOptimiser.registry or id in Average.registry:
        raise ConfigError(_not_an_algorithm(id, suffixes))
    Algorithm.registry.find(id)
    optimiser = average = None
    for suffix in suffixes:
        if suffix in ClientOptimiser.registry and optimiser is None and average is None:
            optimiser = suffix
        elif suffix in Average.registry and average is None:
            average = suffix
        elif suffix in ClientOptimiser.registry or suffix in Average.registry:
            raise ConfigError(f"{spelling!r}: write the algorithm, then a client optimiser, then an average, once each")
        else:
            raise ConfigError(nearest(suffix, [*ClientOptimiser.registry, *Average.registry], "suffix"))
    return id, optimiser, average


def _not_an_algorithm(id: str, suffixes: list[str]) -> str:
    kind = "a client optimiser" if id in ClientOptimiser.registry else "an average"
    return f"{id!r} is {kind}, not an algorithm; write {(suffixes or ['fedavg'])[0]}+{id}"


def _sorted(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Divide settings into the algorithm's own, its client optimiser's and the average's."""
    found: dict[str, dict[str, Any]] = {owner: {} for owner in ("", *OWNERS)}
    for name, value in settings.items():
        owner, _, bare = name.rpartition(".")
        if owner not in found:
            spellings = ", ".join(f"{known}.name" for known in OWNERS)
            raise ConfigError(f"{name}: there is nothing called {owner!r} to set; write name, or one of {spellings}")
        found[owner][bare] = value
    return found[""], found["client_opt"], found["average"]
