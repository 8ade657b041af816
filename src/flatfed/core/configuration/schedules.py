"""Courses: numbers that change over the rounds, for learning rates, radii and any other real parameter.

A course is written as an object, `ff.Ramp(0.001, 0.15, 2000)`, or as text, `"ramp(0.001, 0.15, 2000)"`; rounds count
from 0. `Config.at(round)` puts the round's number in its place, so that formulas only ever see numbers.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from flatfed.core.configuration.config import Count, Course, Index, Positive, Range, checked
from flatfed.core.errors import ConfigError


class Ramp(Course, id="ramp"):
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


class Cosine(Course, id="cosine"):
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


class Poly(Course, id="poly"):
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


class Decay(Course, id="decay"):
    """From `start`, times `factor` after every round."""

    start: float
    factor: Annotated[float, Range(low=0.0, open_low=True, high=1.0)]

    def value(self, round: int) -> float:
        """Return `start * factor^t`."""
        return self.start * self.factor**round

    def bounds(self) -> tuple[float, ...]:
        """Return the start: the rest lies between it and zero."""
        return (self.start,)


class Cycle(Course, id="cycle"):
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


class CycleFrom(Course, id="cyclefrom"):
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


class Steps(Course, id="steps"):
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
    def read(cls, parts: list[str]) -> dict[str, Any]:
        """Return the steps that are written between the brackets, each once."""
        pairs = [part.split(":") for part in parts]
        steps = {int(step): float(value) for step, value in pairs}
        if len(steps) < len(pairs):
            raise ValueError("a step is named twice")
        return {"values": steps}

    @classmethod
    def pattern(cls) -> str:
        """Return how the course is written."""
        return "steps(round:value, ...), each round once"

    def value(self, round: int) -> float:
        """Return the number of the last step that has begun."""
        return float(self.values[max(step for step in self.values if step <= round)])

    def bounds(self) -> tuple[float, ...]:
        """Return every number."""
        return tuple(self.values.values())

    def __str__(self) -> str:
        return f"steps({', '.join(f'{step}:{value!r}' for step, value in self.values.items())})"
