"""Numbers that change over the rounds: what may stand in the place of a real parameter."""

from __future__ import annotations


class Varying:
    """A number for every round."""

    def value(self, round: int) -> float:
        """Return the number of a round, from 0."""
        raise NotImplementedError

    def bounds(self) -> tuple[float, ...]:
        """Return numbers that enclose all that it takes."""
        raise NotImplementedError
