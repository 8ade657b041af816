"""How methods are spelled: `feddyn+sam`, `fedasam+swa`, `adabest(mu=0.01)+asam+swa`, settings by (dotted) name.

Algorithm, then client optimiser, then average, each perhaps with its settings in brackets; it holds in Python, on the
command line and in run directories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from flatfed.core.configuration.config import Config, parameters
from flatfed.core.configuration.grammar import Call, parse_call, split
from flatfed.core.configuration.schedules import Schedule
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import ConfigError, nearest
from flatfed.core.method.algorithm import Algorithm, Average, ClientOptimiser
from flatfed.outside.named_parts import meant_path, with_entered_ids

PARTS = (Algorithm.registry, ClientOptimiser.registry, Average.registry, Schedule.registry)
"""The families whose members a spelling may name."""

OWNERS = ("client_opt", "average")
"""What a setting may belong to besides the algorithm: `client_opt.rho`, `average.cycle`."""


@dataclass(frozen=True)
class Method:
    """A method as it is compared: algorithm (with its client optimiser) and average."""

    spelling: str
    algorithm: Algorithm
    average: Average | None = None


@dataclass(frozen=True)
class Spelling:
    """A spelling taken apart: the classes that it names, and the settings that stand in its brackets."""

    algorithm: type[Algorithm]
    optimiser: type[ClientOptimiser] | None = None
    average: type[Average] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def short(self) -> str:
        """The ids alone: `feddyn+sam`."""
        named = (self.algorithm, self.optimiser, self.average)
        return "+".join(cls.id for cls in named if cls is not None)

    @property
    def settable(self) -> list[str]:
        """The names that can be set for the method."""
        own = [name for name in parameters(self.algorithm) if name != "client_opt"]
        optimiser = self.optimiser or _usual_optimiser(self.algorithm)
        return own + _dotted("client_opt", optimiser) + _dotted("average", self.average)


def _dotted(owner: str, cls: type[Config] | None) -> list[str]:
    return [] if cls is None else [f"{owner}.{name}" for name in parameters(cls)]


def spelling_of(algorithm: Algorithm, average: Average | None) -> str:
    """Return the short spelling of a method: algorithm, client optimiser unless plain, average."""
    optimiser = getattr(algorithm, "client_opt", None)
    parts = [algorithm.id or type(algorithm).__name__.lower()]
    if optimiser is not None and optimiser.id != "sgd":
        parts.append(optimiser.id)
    if average is not None:
        parts.append(average.id)
    return "+".join(parts)


def read_spelling(text: str) -> Spelling:
    """Take a spelling apart; what is unknown, out of order or there twice is an error."""
    # Import paths were read where it is known whose word they are; here nothing is imported.
    first, *suffixes = [_call(part) for part in split(with_entered_ids(text, PARTS), "+")]
    algorithm = _algorithm(first, suffixes)
    optimisers = [call for call in suffixes if call.name in ClientOptimiser.registry]
    averages = [call for call in suffixes if call.name in Average.registry]
    _check_suffixes(text, suffixes, optimisers, averages)
    settings = _settings_in(first, algorithm, "")
    optimiser = average = None
    for call in optimisers:
        optimiser = ClientOptimiser.registry[call.name]
        settings |= _settings_in(call, optimiser, "client_opt.")
    for call in averages:
        average = Average.registry[call.name]
        settings |= _settings_in(call, average, "average.")
    return Spelling(algorithm, optimiser, average, settings)


def _algorithm(call: Call, suffixes: Sequence[Call]) -> type[Algorithm]:
    if call.name in ClientOptimiser.registry or call.name in Average.registry:
        raise ConfigError(_not_an_algorithm(call.name, [suffix.name for suffix in suffixes]))
    _refuse_almost_path(call.name)
    return Algorithm.registry.find(call.name)


def _refuse_almost_path(name: str) -> None:
    """Say how a part of one's own is written where a name is that of a file, say."""
    meant = meant_path(name)
    if meant is not None:
        raise ConfigError(
            f"{name!r} is no method; one of your own is written as Python imports it from where you start: {meant}"
        )
    if ":" in name:
        raise ConfigError(
            f"{name!r} is no method; one of your own is written module:Name, of letters, digits and _ (rename a file "
            "that has others in its name)"
        )


def _check_suffixes(text: str, suffixes: Sequence[Call], optimisers: Sequence[Call], averages: Sequence[Call]) -> None:
    """Refuse what is neither an optimiser nor an average, and both in another order or number than one each."""
    known = [*ClientOptimiser.registry, *Average.registry]
    for call in suffixes:
        if call.name in Algorithm.registry:
            raise ConfigError(f"{text!r}: {call.name!r} is an algorithm, which stands first and alone")
        _refuse_almost_path(call.name)
        if call.name not in known:
            raise ConfigError(nearest(call.name, known, "suffix"))
    in_order = [*optimisers, *averages] == list(suffixes)
    if not in_order or len(optimisers) > 1 or len(averages) > 1:
        raise ConfigError(f"{text!r}: write the algorithm, then a client optimiser, then an average, once each")


def parse_method(spelling: str | Spelling, settings: Mapping[str, Any] | None = None) -> Method:
    """Return the method that a spelling names, with its settings.

    A setting is `name` (the algorithm's), `client_opt.name` or `average.name`.
    """
    read = read_spelling(spelling) if isinstance(spelling, str) else spelling
    own, of_optimiser, of_average = _by_owner(_once(read, settings or {}))
    if read.optimiser is not None or of_optimiser:
        own["client_opt"] = _optimiser(read, own, of_optimiser)
    return Method(read.short, Algorithm.registry.made(read.algorithm, **own), _average(read, of_average))


def _optimiser(read: Spelling, own: Mapping[str, Any], settings: Mapping[str, Any]) -> ClientOptimiser:
    if "client_opt" not in parameters(read.algorithm):
        raise ConfigError(f"{read.algorithm.id} takes no client optimiser; it has its own way to the gradient")
    if "client_opt" in own:
        raise ConfigError(f"{read.short}: client_opt={own['client_opt']!r} is set besides; give one of the two")
    optimiser = read.optimiser or ClientOptimiser.registry["sgd"]
    return ClientOptimiser.registry.made(optimiser, **settings)


def _average(read: Spelling, settings: Mapping[str, Any]) -> Average | None:
    if read.average is not None:
        return Average.registry.made(read.average, **settings)
    if settings:
        raise ConfigError(f"{read.short!r} has no average to set {', '.join(settings)} of; write {read.short}+swa")
    return None


def parse_algorithm(spelling: str, settings: Mapping[str, Any] | None = None) -> Algorithm:
    """Return the algorithm that a spelling without an average names."""
    method = parse_method(spelling, settings)
    if method.average is not None:
        raise ConfigError(
            f"{spelling!r} names an average, which is no part of an algorithm; give the spelling to ff.train as text, "
            f"or average=ff.{type(method.average).__name__}(...)"
        )
    return method.algorithm


def _call(part: str) -> Call:
    call = parse_call(part)
    if call is None and part.count("(") != part.count(")"):
        raise ConfigError(f"{part!r}: the brackets do not match; write them as in feddyn(alpha=0.1)+sam(rho=0.05)")
    if call is None:
        # A name that cannot be one is still looked up, so that the error names what is near it.
        return Call(part)
    return call


def _settings_in(call: Call, cls: type[Config], prefix: str) -> dict[str, Any]:
    """Return the settings that stand in a part's brackets, each under its full name."""
    given = call.by_name(list(parameters(cls)))
    return {f"{prefix}{name}": parse_value(value) for name, value in given.items()}


def _once(read: Spelling, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the spelling and the settings say together; what both say is an error."""
    for name in settings:
        if name in read.settings:
            raise ConfigError(f"{name} is set in the brackets of {read.short} and besides; give it once")
    return {**read.settings, **settings}


def _usual_optimiser(algorithm: type[Algorithm]) -> type[ClientOptimiser] | None:
    """Return the class of an algorithm's client optimiser where none is named; None where it takes none."""
    defaults = {entry.name: entry.default for entry in fields(algorithm)}
    usual = defaults.get("client_opt", MISSING)
    return None if usual is MISSING else type(usual)


def _not_an_algorithm(id: str, suffixes: list[str]) -> str:
    kind = "a client optimiser" if id in ClientOptimiser.registry else "an average"
    return f"{id!r} is {kind}, not an algorithm; write {(suffixes or ['fedavg'])[0]}+{id}"


def _by_owner(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Divide settings into the algorithm's own, its client optimiser's and the average's."""
    owners: dict[str, dict[str, Any]] = {owner: {} for owner in ("", *OWNERS)}
    for name, value in settings.items():
        owner, _, bare = name.rpartition(".")
        if owner not in owners:
            spellings = ", ".join(f"{known}.name" for known in OWNERS)
            raise ConfigError(f"{name}: there is nothing called {owner!r} to set; write name, or one of {spellings}")
        owners[owner][bare] = value
    return owners[""], owners["client_opt"], owners["average"]
