"""What a number may be: intervals, and the annotations that parameters are declared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, get_args


@dataclass(frozen=True)
class Range:
    """The interval a number must lie in; an end marked open is excluded."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        """Say whether `value` lies inside."""
        if (value == self.low and self.open_low) or (value == self.high and self.open_high):
            return False
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return " and ".join([*self._lower_end(), *self._upper_end()]) or "a number"

    def _lower_end(self) -> list[str]:
        if self.low == -math.inf:
            return []
        return [f"{'greater than' if self.open_low else 'at least'} {self.low:g}"]

    def _upper_end(self) -> list[str]:
        if self.high == math.inf:
            return []
        return [f"{'less than' if self.open_high else 'at most'} {self.high:g}"]


@dataclass(frozen=True)
class Alias:
    """Another spelling of a choice, put in an annotation: it is taken, and replaced by what it stands for.

    `Annotated[Literal["mean", "official"], Alias("paper", "mean")]` keeps a name that was in use before.
    """

    spelling: str
    stands_for: str


def range_of(hint: Any) -> Range | None:
    """Return the interval that an annotation asks for, perhaps one of several types; None where it asks for none."""
    if isinstance(hint, Range):
        return hint
    for part in (*get_args(hint), *getattr(hint, "__metadata__", ())):
        allowed = range_of(part)
        if allowed is not None:
            return allowed
    return None


NonNegative = Annotated[float, Range(low=0.0)]
Positive = Annotated[float, Range(low=0.0, open_low=True)]
Fraction = Annotated[float, Range(low=0.0, high=1.0)]
Momentum = Annotated[float, Range(low=0.0, high=1.0, open_high=True)]
Decaying = Annotated[float, Range(low=0.0, open_low=True, high=1.0)]
Count = Annotated[int, Range(low=1)]
Index = Annotated[int, Range(low=0)]
