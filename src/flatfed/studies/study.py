"""A study: variants of methods, settings, parameters to search, seeds, and what is reported of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from flatfed.core.errors import PARAMETER, ConfigError, nearest

LONGEST = 80
"""Characters of a name: it becomes a folder's."""
FORBIDDEN = set('/\\:*?"<>|\0')
"""What some system does not take in a folder's name."""

Options = Mapping[str, Any]
Point = tuple[tuple[str, Any], ...]
"""One choice for each parameter that is searched."""


@dataclass(frozen=True)
class Selection:
    """How the best point of a grid is chosen: never by the numbers that are reported.

    Args:
        by: `seeds`: by runs with other seeds than those that are reported; `validation`: by a part of the training
            examples that is held out while choosing.
        seeds: the seeds of the runs that choose.
        share: how much of the training examples is held out for `validation`.
        rounds: rounds of the runs that choose; None is as many as are reported.
        metric: what is compared: `accuracy` or `loss`, or another metric of the task.
    """

    by: Literal["seeds", "validation"] = "seeds"
    seeds: tuple[int, ...] = (1000,)
    share: float = 0.1
    rounds: int | None = None
    metric: str = ""

    def check(self, reported: Sequence[int]) -> None:
        """Refuse what would choose by the numbers that are reported, or cannot choose."""
        if not self.seeds:
            raise ConfigError(f"{PARAMETER} needs at least one seed", parameter="select.seeds")
        common = sorted(set(self.seeds) & set(reported))
        if self.by == "seeds" and common:
            raise ConfigError(
                f"{PARAMETER}: seed {common[0]} is reported too; choose with others, or by: validation",
                parameter="select.seeds",
            )
        if not 0 < self.share < 1:
            raise ConfigError(f"{PARAMETER} must be between 0 and 1, not {self.share:g}", parameter="select.share")

    @property
    def sentence(self) -> str:
        """How it is chosen, in words for a report."""
        seeds = ", ".join(map(str, self.seeds))
        if self.by == "validation":
            return (
                f"Parameters were chosen on {100 * self.share:g} % of the training examples, held out, with seed "
                f"{seeds}; the runs that are reported trained on all of them."
            )
        return f"Parameters were chosen by runs with seed {seeds}, which are not among those reported."


@dataclass(frozen=True)
class Reporting:
    """What is reported of the runs.

    Args:
        accuracy: which value of the history: `last` (the mean over the last rounds), `final`, `best` (optimistic), or
            `round N`.
        targets: accuracies in percent; rounds and bytes to each are reported.
        reference: the variant with which the others are compared.
        flatness: whether the final models are measured: λmax, λmax/λ5, LPF.
        published: the table or figure whose values stand beside: `fedgloss/table-3`.
    """

    accuracy: str = "last"
    targets: tuple[float, ...] = ()
    reference: str = ""
    flatness: bool = False
    published: str = ""

    def check(self, variants: Sequence[str]) -> None:
        """Refuse what cannot be reported."""
        _check_accuracy(self.accuracy)
        if self.reference and self.reference not in variants:
            unknown = nearest(self.reference, variants, "method")
            raise ConfigError(f"{PARAMETER}: {unknown}", parameter="report.reference")

    @property
    def round(self) -> int | None:
        """The round of `round N`."""
        word, _, number = self.accuracy.partition(" ")
        return int(number) if word == "round" else None


WORDS = ("last", "final", "best")


def _check_accuracy(text: str) -> None:
    word, _, number = text.partition(" ")
    is_round = word == "round" and number.isdecimal() and int(number) > 0
    if text not in WORDS and not is_round:
        raise ConfigError(
            f"{PARAMETER} must be one of {', '.join(WORDS)} or round N, not {text!r}", parameter="report.accuracy"
        )


@dataclass(frozen=True)
class Study:
    """What is trained, and what is reported of it.

    Args:
        methods: variants by name, each with its spelling: `{"no ADMM": "fedgloss(admm=false)"}`.
        settings: columns by name, each with the options in which it differs: `{"alpha 0": {"alpha": 0}}`.
        options: what all have in common, by the names of the options of `flatfed run`; `dataset` is one of them.
        seeds: each variant is trained with each in each setting.
        grid: for a variant, or `all`, the parameters to search: `{"fedsam": {"rho": [0.01, 0.05]}}`.
        select: how the best of them is chosen.
        report: what is reported.
        title: for people.
    """

    methods: Mapping[str, str]
    options: Options
    settings: Mapping[str, Options] = field(default_factory=lambda: {"": {}})
    seeds: tuple[int, ...] = (0,)
    grid: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)
    select: Selection = field(default_factory=Selection)
    report: Reporting = field(default_factory=Reporting)
    title: str = ""

    def __post_init__(self) -> None:
        if not self.methods:
            raise ConfigError(f"{PARAMETER} names none; name at least one, such as fedavg", parameter="methods")
        for name in self.methods:
            check_name(name, "methods")
        for name in self.settings:
            if name or len(self.settings) > 1:
                check_name(name, "settings")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"{PARAMETER} must be different whole numbers, such as 0,1,2", parameter="seeds")
        if self.grid:
            self.select.check(self.seeds)
        self.report.check(list(self.methods))

    def points(self, variant: str) -> list[Point]:
        """Return the points of a variant's grid; one that has none has one point, with nothing to choose."""
        searched = dict(self.grid.get("all", {})) | dict(self.grid.get(variant, {}))
        named = [[(name, value) for value in values] for name, values in searched.items()]
        return list(itertools.product(*named))

    def is_searched(self, variant: str) -> bool:
        """Say whether parameters of a variant are to be chosen."""
        return len(self.points(variant)) > 1

    def columns(self) -> Iterator[tuple[str, str]]:
        """Yield every setting with every variant."""
        yield from itertools.product(self.settings, self.methods)


def check_name(name: str, of: str) -> None:
    """Refuse a name that no folder can have."""
    bad = sorted(set(name) & FORBIDDEN)
    if bad or not name.isprintable():
        raise ConfigError(f"the name {name!r} holds a character that a folder cannot have; leave it out", parameter=of)
    if not name.strip() or name != name.strip() or name.startswith(".") or name.endswith("."):
        raise ConfigError(f"the name {name!r} is empty, or begins or ends with a space or a point", parameter=of)
    if len(name) > LONGEST:
        raise ConfigError(f"the name {name[:30]!r}... is longer than {LONGEST} characters", parameter=of)


def log_range(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return numbers from `low` to `high` with equal ratios: 0.01, 0.1, 1 for three."""
    if low <= 0 or high <= low or count < 2:
        raise ConfigError(f"{PARAMETER} of a log range needs 0 < low < high and at least two numbers", parameter="grid")
    ratio = math.log(high / low) / (count - 1)
    inner = [float(f"{low * math.exp(ratio * number):.6g}") for number in range(1, count - 1)]
    return (low, *inner, high)


def spelled_point(point: Point) -> str:
    """Return a point as people write it, which is its folder's name too: `rho=0.05,beta=10`."""
    return ",".join(f"{name.replace(':', '.')}={value}" for name, value in point)
