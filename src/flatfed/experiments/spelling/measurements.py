"""Measurements as they are written: `lambda_max`, `lpf(samples=20)`, and for monitors `lambda_max:50`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from flatfed.core.configuration.config import parameters
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.methods import parse_value
from flatfed.flatness.measurements import Measurement
from flatfed.flatness.monitor import Monitor
from flatfed.flatness.sample import Sample

_WRITTEN = re.compile(r"(?P<id>[\w-]+)\s*(\((?P<values>[^()]*)\))?")
_APART = re.compile(r",(?![^()]*\))")


def parse_measurement(text: str) -> Measurement:
    """Read one measurement: `lpf`, or `lpf(samples=20, sigma=0.02)`."""
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not a measurement such as lambda_max or lpf(samples=20)")
    cls = Measurement.registry.find(match["id"].replace("-", "_"))
    given = list(_values(cls, match["values"] or ""))
    for name, _ in given:
        if [other for other, _ in given].count(name) > 1:
            raise ConfigError(f"{text!r} gives {name} twice")
    return Measurement.registry.make(cls.id, **dict(given))


def parse_measurements(text: str) -> list[Measurement]:
    """Read several, with commas between them."""
    found = [parse_measurement(part) for part in _APART.split(text) if part.strip()]
    if not found:
        raise ConfigError("say what to measure, such as lambda_max or lpf(samples=20)")
    return found


WATCHED = 2_000
"""Monitors take the loss over so many examples, unless told otherwise."""


def parse_watch(text: str | None, data: str = "train", samples: int | None = WATCHED) -> tuple[Monitor, ...]:
    """Read monitors: a measurement and every how many rounds it is taken, `lambda_max:50,lpf(samples=20):100`."""
    if text is None:
        return ()
    found = []
    for part in _APART.split(text):
        written, colon, every = part.strip().rpartition(":")
        if not colon or not every.strip().isdigit() or int(every) < 1:
            raise ConfigError(f"{part.strip()!r} does not say every how many rounds; write lambda_max:50")
        found.append(Monitor(parse_measurement(written), int(every), Sample(data, samples)))
    return tuple(found)


def written(measurement: Measurement) -> str:
    """Return a measurement as it would be written, without what is default."""
    plain = type(measurement)()
    own = {name: getattr(measurement, name) for name in parameters(type(measurement))}
    changed = [f"{name}={value}" for name, value in own.items() if value != getattr(plain, name)]
    return f"{measurement.id}({', '.join(changed)})" if changed else measurement.id


def names_of(measurements: Sequence[Measurement]) -> list[str]:
    """Return a name for each: its id, or what was written where one id is asked for in several ways."""
    ids = [one.id for one in measurements]
    return [one.id if ids.count(one.id) == 1 else written(one) for one in measurements]


def _values(cls: type[Measurement], text: str) -> Iterator[tuple[str, Any]]:
    names = list(parameters(cls))
    for place, part in enumerate(entry for entry in text.split(",") if entry.strip()):
        name, equals, value = part.partition("=")
        if equals:
            yield name.strip(), parse_value(value.strip())
        elif place < len(names):
            yield names[place], parse_value(part.strip())
        else:
            raise ConfigError(f"{cls.id} takes {len(names)} values: {', '.join(names)}")
