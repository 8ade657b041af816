"""What a data set must be like: counts, classes, natural clients, and the moments of its pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EXACT, QUOTED = 2e-11, 1e-8
"""How far moments may be off: less than one pixel changes them by, or as far as they are quoted."""


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation per channel, white being 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    tolerance: float = EXACT


@dataclass(frozen=True)
class Expected:
    """What `flatfed data check` compares a data set with.

    Args:
        train: the examples of the training part; None where options decide which part an example is in.
        test: the examples of the test part, likewise.
        classes: the number of classes.
        per_class: the training examples of each class.
        groups: the number of natural clients by the name of their grouping.
        train_moments: the moments of the training images.
        test_moments: the moments of the test images.
        total: the examples of all parts together, where `train` and `test` are None.
        further: the examples of other test sets by name.
        chosen_by: options that make another set, of which nothing is known.
        limits: for a part the option that says how many examples of each class are taken, 0 being all.
        subsets: whether subsets are in use; fewer examples are then noted and not wrong.
    """

    train: int | None
    test: int | None
    classes: int
    per_class: tuple[int, ...] = ()
    groups: Mapping[str, int] = field(default_factory=dict)
    train_moments: Moments | None = None
    test_moments: Moments | None = None
    total: int | None = None
    further: Mapping[str, int] = field(default_factory=dict)
    chosen_by: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    subsets: bool = False

    def holds_under(self, options: Mapping[str, Any]) -> bool:
        """Say whether options leave the set that is described here."""
        return not any(options.get(name) for name in self.chosen_by)

    def examples(self, part: str) -> int | None:
        """Return how many examples a part has."""
        return {"train": self.train, "test": self.test, **self.further}.get(part)

    def taken(self, part: str, options: Mapping[str, Any]) -> int | None:
        """Return how many of these are taken under the options."""
        number = self.examples(part)
        limit: int | None = options.get(self.limits.get(part, ""))
        if number and limit:
            return min(number, limit * self.classes)
        return number

    def admits_subset(self, part: str, count: int, options: Mapping[str, Any]) -> bool:
        """Say whether a part has fewer examples than there are, and may have fewer."""
        number = self.taken(part, options)
        return self.subsets and number is not None and count < number
