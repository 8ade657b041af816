"""How long measurements of a study's models take: each is taken on few examples, and its time is scaled to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatfed.core.configuration.config import parameters
from flatfed.core.errors import FlatfedError
from flatfed.core.round.federation import Federation
from flatfed.core.round.sampling import Uniform
from flatfed.experiments.planning.plan import Plan
from flatfed.flatness.measurement import ClientMeasurement, Measurement, Subject
from flatfed.flatness.monitor import Monitor
from flatfed.flatness.sums import Sample
from flatfed.flatness.surface import surface_at
from flatfed.studies.checking.timing import Pace, cpu_seconds, tried

CHOSEN = "clients"
"""The parameter of measurements that says how many clients are asked; None is all."""
FEW, MANY = 32, 160
"""On how many examples measurements are tried."""
CLIENTS = 2
"""On how many clients, where a measurement asks many."""
PASSES = 60
"""About how many backprops a measurement takes on each of its examples."""
AFFORDABLE_SECONDS = 30.0
"""What would take longer than this to try is not tried."""


@dataclass(frozen=True)
class AskedMeasurement:
    """What is measured: how, and over which examples."""

    measurement: Measurement
    sample: Sample = field(default_factory=Sample)

    @property
    def asks_clients(self) -> bool:
        """Whether it asks clients, so that only a part of its time is spent on the sample."""
        return isinstance(self.measurement, ClientMeasurement)

    @property
    def chooses_clients(self) -> bool:
        """Whether it says how many clients it asks."""
        return CHOSEN in parameters(type(self.measurement))

    def of(self, examples: int) -> AskedMeasurement:
        """Return the same over few examples, and of few clients."""
        measurement = self.measurement
        if self.chooses_clients:
            measurement = Measurement.registry.make(measurement.id, **{**_values(measurement), CHOSEN: CLIENTS})
        return AskedMeasurement(measurement, replace(self.sample, most=examples))


def _values(measurement: Measurement) -> dict[str, Any]:
    return {name: getattr(measurement, name) for name in parameters(type(measurement))}


def is_affordable(plan: Plan, pace: Pace, asked: AskedMeasurement) -> bool:
    """Say whether a measurement can be tried in little time."""
    examples = float(FEW + MANY)
    if asked.asks_clients:
        task = plan.task
        examples += 2 * sum(task.samples(client) for client in range(task.population)) / task.population
    return examples * PASSES * pace.backprop_of_example <= AFFORDABLE_SECONDS


def seconds_to_measure(plan: Plan, asked: Sequence[AskedMeasurement]) -> list[float | None]:
    """Measure a model that has hardly been trained, and return the seconds of each; None where it cannot be taken."""
    looks_back = any(one.measurement.looks_back for one in asked)
    # Of those whose models are measured, one client is enough: those of a round take about the same.
    with tried(replace(plan, sampler=Uniform(1)) if looks_back else plan) as federation:
        if looks_back:
            federation.monitors = [_Remembering()]
            next(federation.rounds())
        surface_at(federation, federation.evaluated, Sample(most=FEW)).gradient()  # allocates
        return [_seconds(federation, one, plan) for one in asked]


class _Remembering:
    """A monitor that measures nothing, and lets the federation remember what was before its round."""

    looks_back = True

    def due(self, round: int) -> bool:
        """Say that it is."""
        return True

    def read(self, federation: Federation) -> dict[str, object]:
        """Return nothing."""
        return {}


def _seconds(federation: Federation, asked: AskedMeasurement, plan: Plan) -> float | None:
    """Return the time of a measurement over all of its examples and clients, from that over few of them."""
    task = federation.task
    try:
        count = asked.sample.count(task)
        many = _timed(federation, asked.of(MANY))
        if not asked.asks_clients:
            return many * count / min(count, MANY)
        few = _timed(federation, asked.of(FEW))
    except FlatfedError:
        return None
    # What the clients take does not grow with the sample, but with their number.
    of_example = max(0.0, many - few) / (MANY - FEW)
    of_clients = many - of_example * MANY
    if asked.measurement.looks_back:
        return (of_example * count + of_clients) * plan.sampler.expected(plan.task.population)
    if asked.chooses_clients:
        of_clients *= (getattr(asked.measurement, CHOSEN) or task.population) / CLIENTS
    return of_example * count + of_clients


def _timed(federation: Federation, asked: AskedMeasurement) -> float:
    surface = surface_at(federation, federation.evaluated, asked.sample)
    return cpu_seconds(lambda: asked.measurement.measure(Subject(surface, federation)))


def asked_by(monitor: Monitor) -> AskedMeasurement:
    """Return what a monitor measures."""
    return AskedMeasurement(monitor.measurement, monitor.sample)
