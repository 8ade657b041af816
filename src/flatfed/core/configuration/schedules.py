"""Schedules: numbers that change over the rounds, for learning rates, radii and any other real parameter.

A schedule is written as an object, `ff.Ramp(0.001, 0.15, 2000)`, or as text, `"ramp(0.001, 0.15, 2000)"`; rounds count
from 0. `Config.at(round)` puts the round's number in its place, so that formulas only ever see numbers.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from flatfed.core.configuration.checking import Count, Decaying, Index, Positive, Varying, checked
from flatfed.core.configuration.config import Config, build, parameters
from flatfed.core.configuration.grammar import Call, parse_call
from flatfed.core.configuration.registry import Registry
from flatfed.core.errors import ConfigError


class Schedule(Varying, Config):
    """Family of schedules: a number for every round. Written `ramp(0.001, 0.15, 2000)`, as Python would call it."""

    registry: ClassVar[Registry[Schedule]] = Registry("schedule")

    def __new__(cls, *args: Any, **values: Any) -> Self:
        """Refuse the family itself: it has members such as `Ramp`."""
        if cls is Schedule:
            raise ConfigError(
                "ff.Schedule is the family of schedules; take one of its members, such as ff.Ramp or ff.Cosine. "
                "Cohorts are replayed by ff.Replay"
            )
        return super().__new__(cls, *args, **values)

    def __str__(self) -> str:
        return f"{self.id}({', '.join(repr(getattr(self, name)) for name in parameters(type(self)))})"

    @staticmethod
    def parse(text: str) -> Schedule:
        """Read a schedule as it is written: `ramp(0.001, 0.15, 2000)`, `steps(0:0.1, 100:0.01)`."""
        call = parse_call(text)
        if call is None or not call.has_brackets:
            raise ConfigError(f"{text!r} is not a schedule such as ramp(0.001, 0.15, 2000)")
        cls = Schedule.registry.find(call.name)
        try:
            values = cls.read(call)
        except ValueError:  # a ConfigError is one too: too many values
            raise ConfigError(f"{text!r} does not fit {cls.pattern()}, numbers with commas between them") from None
        return build(cls, values)

    @classmethod
    def read(cls, call: Call) -> dict[str, Any]:
        """Return the parameters that are written between the brackets."""
        given = call.by_name(list(parameters(cls)))
        if len(given) < len(parameters(cls)):
            raise ValueError("a value is missing")
        return {name: float(value) for name, value in given.items()}

    @classmethod
    def pattern(cls) -> str:
        """Return how the schedule is written."""
        return f"{cls.id}({', '.join(parameters(cls))})"


class Ramp(Schedule, id="ramp"):
    """In a straight line from `start` to `end` within `rounds` rounds, then constant."""

    start: float
    end: float
    rounds: Count

    def value(self, round: int) -> float:
        """Return `start + (end - start) * min(t, rounds)/rounds`."""
        return self.start + (self.end - self.start) * (min(round, self.rounds) / self.rounds)

    def bounds(self) -> tuple[float, ...]:
        """Return both ends."""
        return self.start, self.end


class Cosine(Schedule, id="cosine"):
    """Along half a cosine wave from `start` to `end` within `rounds` rounds, then constant."""

    start: float
    end: float
    rounds: Count

    def value(self, round: int) -> float:
        """Return `end + (start - end) * (1 + cos(pi * min(t, rounds)/rounds))/2`."""
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * min(round, self.rounds) / self.rounds)) / 2

    def bounds(self) -> tuple[float, ...]:
        """Return both ends."""
        return self.start, self.end


class Poly(Schedule, id="poly"):
    """From `start` to `end` within `rounds` rounds along a power of the share that is left, then constant."""

    start: float
    end: float
    rounds: Count
    power: Positive

    def value(self, round: int) -> float:
        """Return `end + (start - end) * (1 - min(t, rounds)/rounds)^power`."""
        left = math.pow(1 - min(round, self.rounds) / self.rounds, self.power)
        return self.end + (self.start - self.end) * left

    def bounds(self) -> tuple[float, ...]:
        """Return both ends."""
        return self.start, self.end


class Decay(Schedule, id="decay"):
    """From `start`, times `factor` after every round."""

    start: float
    factor: Decaying

    def value(self, round: int) -> float:
        """Return `start * factor^t`."""
        return self.start * self.factor**round

    def bounds(self) -> tuple[float, ...]:
        """Return the start: the rest lies between it and zero."""
        return (self.start,)


class Cycle(Schedule, id="cycle"):
    """From near `high` down to `low` within every `period` rounds, over and over, as in SWA."""

    high: float
    low: float
    period: Count

    def value(self, round: int) -> float:
        """Return `low + (1 - phase) (high - low)`, `phase = ((t mod period) + 1)/period`."""
        phase = (round % self.period + 1) / self.period
        return self.low + (1 - phase) * (self.high - self.low)

    def bounds(self) -> tuple[float, ...]:
        """Return both ends."""
        return self.high, self.low


class CycleFrom(Schedule, id="cyclefrom"):
    """Constant at `high` until round `start`, then down to `low` within every `period` rounds: SWA's rate alone."""

    start: Index
    high: float
    low: float
    period: Count

    def value(self, round: int) -> float:
        """Return `high`, and from round `start` on the value of `cycle(high, low, period)` in round `t - start`.

        A period of 1 leaves the rate alone, as SWA does.
        """
        if round < self.start or self.period == 1:
            return self.high
        return Cycle(self.high, self.low, self.period).value(round - self.start)

    def bounds(self) -> tuple[float, ...]:
        """Return both ends."""
        return self.high, self.low


class Steps(Schedule, id="steps"):
    """Constant from each named round on: `Steps({0: 0.1, 100: 0.01})`."""

    values: dict  # type: ignore[type-arg]  # round to number; checked below

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = {
            checked(int, k, "steps: a round"): checked(float, v, "steps: a value") for k, v in self.values.items()
        }
        if min(numbers, default=-1) != 0:
            raise ConfigError(f"steps: the first step must be at round 0, as in steps(0:0.1, 100:0.01), not {self}")
        object.__setattr__(self, "values", dict(sorted(numbers.items())))

    @classmethod
    def read(cls, call: Call) -> dict[str, Any]:
        """Return the steps that are written between the brackets, each once."""
        steps: dict[int, float] = {}
        for argument in call.arguments:
            step, _, value = argument.value.partition(":")
            if int(step) in steps:
                raise ValueError("a step is named twice")
            steps[int(step)] = float(value)
        return {"values": steps}

    @classmethod
    def pattern(cls) -> str:
        """Return how the schedule is written."""
        return "steps(round:value, ...), each round once"

    def value(self, round: int) -> float:
        """Return the number of the last step that has begun."""
        return float(self.values[max(step for step in self.values if step <= round)])

    def bounds(self) -> tuple[float, ...]:
        """Return every number."""
        return tuple(self.values.values())

    def __str__(self) -> str:
        return f"steps({', '.join(f'{step}:{value!r}' for step, value in self.values.items())})"
