"""What the cells of studies take: those of which rounds take the same time are timed once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.experiments.comparing.comparison import Comparison
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import Costs, costs
from flatfed.studies.cells import description
from flatfed.studies.checking.estimate import Estimate, RoundTime, estimate, time_of_round
from flatfed.studies.checking.measuring_time import AskedMeasurement, asked_by, is_affordable, seconds_to_measure
from flatfed.studies.checking.timing import Pace, measure

DIVISION = ("seed", "partition", "partition_seed")
"""How examples are divided among clients."""
LENGTH = ("rounds", "evaluate_every", "evaluate_last")
"""Settings that say how many rounds and evaluations there are, and not how long each takes."""


@dataclass
class TimedCells:
    """What is known by now of the time that rounds, and measurements, take.

    How examples are divided among clients, and parameters that are no whole numbers, do not matter for it: cells that
    differ in those alone are timed once.
    """

    _paces: dict[str, Pace] = field(default_factory=dict)
    _costs: dict[str, Costs] = field(default_factory=dict)
    _times: dict[str, RoundTime] = field(default_factory=dict)
    _measured: dict[tuple[str, AskedMeasurement], float | None] = field(default_factory=dict)

    def estimate(self, comparison: Comparison, plan: Plan) -> Estimate:
        """Return what a cell takes, without what it watches."""
        described = description(comparison)
        method = _text(described["methods"])
        if method not in self._costs:
            self._costs[method] = costs(plan.algorithm)
        counted = self._costs[method]
        key = _text([described[part] for part in ("task", "settings", "sampler", "methods")])
        if key not in self._times:
            self._times[key] = time_of_round(plan, self._pace(comparison, plan), counted)
        return estimate(plan, self._times[key], counted)

    def _pace(self, comparison: Comparison, plan: Plan) -> Pace:
        """Return the pace of a task; which method is trained on it does not matter."""
        key = f"{_task_key(comparison)} {plan.settings.batch_size}"
        if key not in self._paces:
            self._paces[key] = measure(plan)
        return self._paces[key]

    def measuring(
        self, comparison: Comparison, plan: Plan, asked: Sequence[AskedMeasurement]
    ) -> dict[AskedMeasurement, float | None]:
        """Return the seconds of measurements of one model of a task; None where they are not known.

        Which method has trained it does not matter, but for whether the measurement means something for it.
        """
        fit = [one for one in asked if not one.measurement.unfit(plan.algorithm)]
        task = _task_key(comparison)
        new = [one for one in fit if (task, one) not in self._measured]
        pace = self._pace(comparison, plan)
        tried = [one for one in new if is_affordable(plan, pace, one)]
        self._measured |= {(task, one): None for one in new}
        if tried:
            times = seconds_to_measure(plan, tried)
            self._measured |= {(task, one): seconds for one, seconds in zip(tried, times, strict=True)}
        return {one: self._measured[task, one] for one in fit}

    def watching(self, comparison: Comparison, plan: Plan) -> tuple[float, list[str]]:
        """Return the seconds of what a cell watches in all of its rounds, and what of it is not known."""
        seconds, unknown = 0.0, []
        times = self.measuring(comparison, plan, [asked_by(monitor) for monitor in plan.watch])
        for monitor in plan.watch:
            once = times.get(asked_by(monitor), 0.0)
            if once is None:
                unknown.append(monitor.measurement.id)
            else:
                seconds += once * sum(monitor.due(round) for round in range(plan.settings.rounds))
        return seconds, unknown


def _task_key(comparison: Comparison) -> str:
    described = description(comparison)
    return _text([described["task"], described["sampler"]])


def _text(described: Any) -> str:
    """Return what decides the time, as text."""
    return json.dumps(_deciding(described), sort_keys=True)


def _deciding(described: Any) -> Any:
    """Return a description without what does not decide the time."""
    if isinstance(described, Mapping):
        kept = {name: value for name, value in described.items() if name not in (*LENGTH, *DIVISION)}
        return {name: _deciding(value) for name, value in kept.items()}
    if isinstance(described, list):
        return [_deciding(entry) for entry in described]
    return "a number" if isinstance(described, float) else described
