"""Numbers of several studies: every comparison is of one study's alone, so that nothing else differs than it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from flatfed.published.claims.intervals import MeanInterval, NotMeasured, Numbers
from flatfed.published.claims.rules import Quantity

Found = TypeVar("Found")


class JointNumbers:
    """The numbers of the first study that has all of a comparison.

    Args:
        studies: the numbers of each, by its name, in the order of being asked; at least one.

    Attributes:
        used: the studies that decided something.
    """

    def __init__(self, studies: Mapping[str, Numbers]) -> None:
        self.studies = studies
        self.used: dict[str, None] = {}

    def means(self, left: Quantity, right: Quantity) -> tuple[float, float]:
        """Return the means of two quantities that are compared."""
        return self._first(lambda numbers: numbers.means(left, right))

    def difference(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return left - right."""
        return self._first(lambda numbers: numbers.difference(left, right))

    def ratio(self, left: Quantity, right: Quantity) -> MeanInterval:
        """Return left / right."""
        return self._first(lambda numbers: numbers.ratio(left, right))

    def each(self, quantity: Quantity) -> list[float]:
        """Return every single value of a quantity."""
        return self._first(lambda numbers: numbers.each(quantity))

    def _first(self, ask: Callable[[Numbers], Found]) -> Found:
        missing = []
        for name, numbers in self.studies.items():
            try:
                found = ask(numbers)
            except NotMeasured as error:
                missing.append(error)
                continue
            self.used[name] = None
            return found
        raise missing[0]
