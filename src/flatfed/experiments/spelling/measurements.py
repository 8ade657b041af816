"""Measurements as they are written: `lambda_max`, `lpf(samples=20)`, and for monitors `lambda_max:50`."""

from __future__ import annotations

from collections.abc import Sequence

from flatfed.core.configuration.config import parameters
from flatfed.core.configuration.grammar import parse_call, split
from flatfed.core.configuration.values import parse_value
from flatfed.core.errors import ConfigError
from flatfed.flatness.measurements import Measurement
from flatfed.flatness.monitor import Monitor
from flatfed.flatness.sample import Sample

WATCHED = 2_000
"""Monitors take the loss over this number of examples where nothing else is said."""


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
