"""Methods and measurements as they are written: `fedgloss:beta=100` for one of several, `lambda_max:50`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

from flatfed.algorithms import Algorithm, Average, ClientOptimiser
from flatfed.algorithms.spelling import OWNERS, Method, Spelling, parse_method, read_spelling, spelling_of
from flatfed.core.configuration.config import Config, parameters
from flatfed.core.configuration.grammar import parse_call, split
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import PARAMETER, ConfigError, nearest
from flatfed.experiments.spelling.declared import WATCHED
from flatfed.flatness.measurements import Measurement
from flatfed.flatness.monitor import Monitor
from flatfed.flatness.sums import Sample

OF_THE_TASK = ("partition", "model", "data")
"""What settings may belong to besides a method and its parts; they describe the task and never reach a method."""


@dataclass(frozen=True)
class SettingName:
    """The name of a setting, taken apart: `fedgloss:client_opt.rho` is the `client_opt`'s, of `fedgloss` alone."""

    text: str

    @property
    def method(self) -> str:
        """The method before the colon; empty where the setting is for all."""
        return self.text.rpartition(":")[0]

    @property
    def bare(self) -> str:
        """The name without the method."""
        return self.text.rpartition(":")[2]

    @property
    def owner(self) -> str:
        """What it belongs to: `client_opt`, `average`, or the algorithm where it is empty."""
        return self.bare.rpartition(".")[0]

    @property
    def closeness(self) -> tuple[bool, bool]:
        """The order in which settings are applied: for all, for an algorithm, for a spelling with its suffixes."""
        return bool(self.method), "+" in self.method


def parse_methods(
    spellings: Sequence[str], settings: Mapping[str, Any], yielding: Collection[str] = ()
) -> list[Method]:
    """Return several methods; a setting goes to every method that has it, or to the one named before a colon.

    `rho=0.1` reaches all that take `rho`, `fedgloss:beta=100` only fedgloss (and fedgloss+sam). A setting that
    reaches no method is an error.

    Args:
        spellings: the methods as they are written, perhaps with settings in brackets.
        settings: further settings by name.
        yielding: names of those settings that give way to what stands in brackets, such as those of a file.
    """
    methods = list(map(read_spelling, spellings))
    _refuse_unreached(methods, settings)
    parsed = []
    for method in methods:
        reaching = _settings_of(method, settings, alone=len(methods) == 1)
        parsed.append(parse_method(method, _outranking(method, reaching, yielding)))
    _refuse_repeated(parsed)
    return parsed


def _settings_of(method: Spelling, settings: Mapping[str, Any], alone: bool) -> dict[SettingName, Any]:
    """Return the settings that reach a method; the more closely one names it, the later it comes."""
    names = sorted(map(SettingName, settings), key=attrgetter("closeness"))
    return {name: settings[name.text] for name in names if _reaches(method, name, alone)}


def _reaches(method: Spelling, name: SettingName, alone: bool) -> bool:
    if name.method:
        return name.method in _names(method)
    # A single method gets every setting, so that the error about a wrong name comes from the method itself.
    return alone or name.bare in method.settable


def _outranking(method: Spelling, settings: Mapping[SettingName, Any], yielding: Collection[str]) -> dict[str, Any]:
    """Return a method's settings by their bare names, without those that give way to its brackets."""
    outranking = {}
    for name, value in settings.items():
        outranked = name.text in yielding and name.bare in method.settings
        if not outranked:
            # They come in the order of closeness: one that names the method more closely replaces an earlier one.
            outranking[name.bare] = value
    return outranking


def _refuse_repeated(methods: Sequence[Method]) -> None:
    """Refuse a method that is there twice, in whatever spelling: its runs would have one directory."""
    counts = Counter(spelling_of(method.algorithm, method.average) for method in methods)
    for name, count in counts.items():
        if count > 1:
            raise ConfigError(f"{name} is named twice; each method is compared once")


def _names(method: Spelling) -> tuple[str, str]:
    """Return how a method is named in a setting: by its spelling or by its algorithm."""
    return method.short, method.algorithm.id


def _refuse_unreached(methods: Sequence[Spelling], settings: Mapping[str, Any]) -> None:
    """Refuse settings that reach no method."""
    names = list(map(SettingName, settings))
    methods_named = _method_names(methods)
    for name in names:
        _refuse_other_method(name, methods_named)
        _refuse_other_owner(name)
        if len(methods) > 1:
            _refuse_unknown(name, methods)


def _refuse_other_method(name: SettingName, methods: Collection[str]) -> None:
    if name.method and name.method not in methods:
        _refuse(name, nearest(name.method, methods, "method"))


def _refuse_other_owner(name: SettingName) -> None:
    if name.owner and name.owner not in OWNERS:
        _refuse(name, _not_an_owner(name.owner))


def _refuse_unknown(name: SettingName, methods: Sequence[Spelling]) -> None:
    """Refuse a setting for all methods that none of them has; what is for one method, that method refuses."""
    known = _settable(methods) | {"client_opt"}
    if not name.method and name.bare not in known:
        raise ConfigError(nearest(name.bare, known, "parameter"), parameter=name.text)


def _refuse(name: SettingName, reason: str) -> None:
    raise ConfigError(f"{PARAMETER}: {reason}", parameter=name.text)


def _method_names(methods: Sequence[Spelling]) -> set[str]:
    return set(chain.from_iterable(map(_names, methods)))


def _settable(methods: Sequence[Spelling]) -> set[str]:
    return set(chain.from_iterable(method.settable for method in methods))


def relevant(settings: Mapping[str, Any], spellings: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a shared file that concern these methods; those of other methods are left out."""
    methods = list(map(read_spelling, spellings))
    return {name: value for name, value in settings.items() if _concerns(methods, SettingName(name))}


def _concerns(methods: Sequence[Spelling], name: SettingName) -> bool:
    """Say whether a setting is for one of the methods, or for none that there is: then it is a mistake."""
    if name.method:
        return _concerns_method(methods, name.method)
    return name.bare in _settable(methods) or name.bare not in _settable_anywhere()


def _concerns_method(methods: Sequence[Spelling], spelling: str) -> bool:
    algorithm = spelling.partition("+")[0]
    return spelling in _method_names(methods) or algorithm not in Algorithm.registry


def _settable_anywhere() -> set[str]:
    """Return every name that some method has a setting of."""
    algorithms = list(map(Spelling, Algorithm.registry.values()))
    of_optimisers = _owned("client_opt", ClientOptimiser.registry.values())
    of_averages = _owned("average", Average.registry.values())
    return _settable(algorithms) | set(of_optimisers) | set(of_averages)


def _owned(owner: str, classes: Collection[type[Config]]) -> Iterator[str]:
    for cls in classes:
        for name in parameters(cls):
            yield f"{owner}.{name}"


def parse_setting(text: str) -> tuple[str, Any]:
    """Split `name=value`; the value is read as YAML would, with 1e-3 a number."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{PARAMETER} takes name=value, not {text!r}", parameter="settings")
    return name.strip(), parse_value(value.strip())


def _not_an_owner(owner: str) -> str:
    if owner in OF_THE_TASK:
        return f"the {owner} is the same for all methods; leave the method's name out"
    spellings = ", ".join(f"{known}.name" for known in (*OWNERS, *OF_THE_TASK))
    return f"there is nothing called {owner!r} to set; write name, or one of {spellings}"


def parse_measurement(text: str) -> Measurement:
    """Read one measurement: `lpf`, or `lpf(samples=20, sigma=0.02)`."""
    call = parse_call(text)
    if call is None:
        raise ConfigError(f"{text!r} is not a measurement such as lambda_max or lpf(samples=20)")
    cls = Measurement.registry.find(call.name.replace("-", "_"))
    texts = call.by_name(list(parameters(cls)))
    values = {name: parse_value(value) for name, value in texts.items()}
    return Measurement.registry.make(cls.id, **values)


def parse_measurements(text: str) -> list[Measurement]:
    """Read several, with commas between them."""
    parts = filter(str.strip, split(text, ","))
    measurements = list(map(parse_measurement, parts))
    if not measurements:
        raise ConfigError("say what to measure, such as lambda_max or lpf(samples=20)")
    return measurements


def parse_watch(text: str | None, data: str = "train", samples: int | None = WATCHED) -> tuple[Monitor, ...]:
    """Read monitors: a measurement and every how many rounds it is taken, `lambda_max:50,lpf(samples=20):100`."""
    if text is None:
        return ()
    sample = Sample(data, samples)
    return tuple(_monitor(part.strip(), sample) for part in split(text, ","))


def _monitor(text: str, sample: Sample) -> Monitor:
    # The last colon, for brackets may hold a schedule such as steps(0:1, 5:2).
    written, colon, every = text.rpartition(":")
    if not colon or not _is_count(every.strip()):
        raise ConfigError(f"{text!r} does not say every how many rounds; write lambda_max:50")
    return Monitor(parse_measurement(written), int(every), sample)


def _is_count(text: str) -> bool:
    return text.isdigit() and int(text) >= 1


def written(measurement: Measurement) -> str:
    """Return a measurement as it would be written, without what is default."""
    plain = type(measurement)()
    changed = []
    for name in parameters(type(measurement)):
        value = getattr(measurement, name)
        if value != getattr(plain, name):
            changed.append(f"{name}={value}")
    if not changed:
        return measurement.id
    return f"{measurement.id}({', '.join(changed)})"


def names_of(measurements: Sequence[Measurement]) -> list[str]:
    """Return a name for each: its id, or what was written where one id is asked for in several ways."""
    ids = [measurement.id for measurement in measurements]
    return [_name(measurement, ids) for measurement in measurements]


def _name(measurement: Measurement, ids: Sequence[str]) -> str:
    if ids.count(measurement.id) == 1:
        return measurement.id
    return written(measurement)
