"""What is known of the official data sets: counts, classes, and the moments of their pixels."""

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
class Known:
    """What a data set must be like: examples of each part and class, natural clients, moments.

    Where options decide which part an example is in, `total` is known instead of `train` and `test`: the examples of
    all parts together. `further` has the examples of other test sets. An option of `chosen_by` makes a set of which
    nothing is known. `limits` names for a part the option that says how many examples of each class are taken, 0 being
    all. Of some data sets subsets are in use (`subsets`): fewer examples are noted there and not wrong.
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

    def examples(self, part: str) -> int | None:
        """Return how many examples a part has."""
        return {"train": self.train, "test": self.test, **self.further}.get(part)

    def taken(self, part: str, options: Mapping[str, Any]) -> int | None:
        """Return how many of these are taken under the options."""
        number, limit = self.examples(part), options.get(self.limits.get(part, ""))
        return min(number, limit * self.classes) if number and limit else number


_DIGITS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
_MNIST = Moments((0.1306604762738429,), (0.3081078038564627,)), Moments((0.13251460584233693,), (0.3104802479305351,))

KNOWN: dict[str, Known] = {
    "camvid": Known(367, 233, 11, groups={"sequence": 3}, further={"val": 101}),
    "cifar10": Known(
        50_000,
        10_000,
        10,
        (5_000,) * 10,
        train_moments=Moments(
            (0.49139967861519607, 0.48215840839460783, 0.44653091444546567),
            (0.2470322324632821, 0.2434851280000555, 0.26158784172796445),
        ),
        test_moments=Moments(
            (0.4942142800245098, 0.4851313890165441, 0.4504090927542892),
            (0.24665251509497996, 0.2428922634600537, 0.26159237802202345),
        ),
    ),
    "cifar100": Known(
        50_000,
        10_000,
        100,
        (500,) * 100,
        {"coarse": 20},
        Moments((0.50707516, 0.48654887, 0.44091784), (0.26733429, 0.25643846, 0.27615047), QUOTED),
    ),
    "cityscapes": Known(2_975, 500, 19, groups={"city": 18}, chosen_by=("lists",)),
    "dbpedia14": Known(560_000, 70_000, 14, limits={"train": "per_class", "test": "test_per_class"}, subsets=True),
    "mnist": Known(60_000, 10_000, 10, _DIGITS, {}, *_MNIST),
    "fashion-mnist": Known(
        60_000,
        10_000,
        10,
        (6_000,) * 10,
        train_moments=Moments((0.2860405969887955,), (0.3530242445149226,)),
        test_moments=Moments((0.28684928071228494,), (0.35244415324744005,)),
    ),
    "mnist-writers": Known(60_000, 10_000, 10, _DIGITS, {"writer": 539}, *_MNIST),
    "landmarks-user-160k": Known(164_172, 19_526, 2_028, groups={"user": 1_262}),
    # Of four domains one, any, is the test.
    "officehome": Known(None, None, 65, groups={"domain": 3}, total=15_588, chosen_by=("share",)),
    "pacs": Known(None, None, 7, groups={"domain": 3}, total=9_991, chosen_by=("share",)),
}
"""By data set."""
