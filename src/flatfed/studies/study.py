"""A study: variants of methods, settings, parameters to search, seeds, and what is reported of them."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from flatfed.core.errors import PARAMETER, ConfigError, nearest

LONGEST = 80
"""Characters of a name: it becomes a folder's."""
LONGEST_BYTES = 200
"""Bytes of it: systems take 255 with what is added for a while."""
MANY = 10_000
"""More seeds, or values of a parameter, than anybody means."""
ALL = "all"
"""What a grid calls every method."""
FORBIDDEN = set('/\\:*?"<>|\0')
"""What some system does not take in a folder's name."""

Options = Mapping[str, Any]
Point = tuple[tuple[str, Any], ...]
"""One choice for each parameter that is searched."""
Way = tuple[str, ...]
Fault = tuple[Way, str]
"""The way to an entry of a study, and what is wrong with it."""
By = Literal["seeds", "validation"]


class FaultyStudyError(ConfigError):
    """What is wrong with a study as a whole: all of it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(f"{'.'.join(way)}: {message}" for way, message in faults))
        self.faults = faults


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

    by: By = "seeds"
    seeds: tuple[int, ...] = (1000,)
    share: float = 0.1
    rounds: int | None = None
    metric: str = ""

    def faults(self, reported: Sequence[int]) -> Iterator[Fault]:
        """Yield what would choose by the numbers that are reported, or cannot choose."""
        ways = get_args(By)
        if self.by not in ways:
            yield ("select", "by"), f"by must be {' or '.join(ways)}, not {self.by!r:.40}"
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            yield ("select", "seeds"), "the seeds that choose must be different whole numbers, at least one"
        common = sorted(set(self.seeds) & set(reported))
        if self.by != "validation" and common:
            yield ("select", "seeds"), f"seed {common[0]} is reported too; choose with others, or by: validation"
        if not 0 < self.share < 1:
            yield ("select", "share"), f"share must be between 0 and 1, not {self.share:g}"
        if self.rounds is not None and self.rounds < 1:
            yield ("select", "rounds"), f"rounds must be at least 1, not {self.rounds}"

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
        targets: accuracies in percent, or the word `reference`; rounds and bytes to each are reported.
        reference: the variant with which the others are compared.
        flatness: whether the final models are measured, or which measurements.
        published: the table or figure whose values stand beside: `fedgloss/table-3`.
        against: an option or parameter in which settings differ.
        curves: columns of the history that are drawn over the rounds.
        figures: pictures of finished runs by name, each with what is drawn.
    """

    accuracy: str = "last"
    targets: tuple[float, ...] | str = ()
    reference: str = ""
    flatness: bool | str = False
    published: str = ""
    against: str = ""
    curves: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)

    def faults(self, variants: Sequence[str]) -> Iterator[Fault]:
        """Yield what cannot be reported."""
        if self.accuracy not in WORDS and not _is_round(self.accuracy):
            yield ("report", "accuracy"), f"accuracy must be {', '.join(WORDS)} or round N, not {self.accuracy!r:.40}"
        if self.reference and self.reference not in variants:
            yield ("report", "reference"), nearest(self.reference, variants, "method")

    @property
    def round(self) -> int | None:
        """The round of `round N`."""
        if not _is_round(self.accuracy):
            return None
        return int(self.accuracy.partition(" ")[2])


WORDS = ("last", "final", "best")


def _is_round(text: str) -> bool:
    """Say whether a text is `round N`, counted from 1."""
    word, _, number = text.partition(" ")
    return word == "round" and number.isdecimal() and int(number) > 0


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
        faults = list(self._faults())
        if faults:
            raise FaultyStudyError(faults)

    def _faults(self) -> Iterator[Fault]:
        """Yield what is wrong with it."""
        if not self.methods:
            yield ("methods",), "there is none; name at least one, such as fedavg"
        yield from name_faults(self.methods, "methods")
        if ALL in self.methods:
            yield ("methods", ALL), f"{ALL} stands for every method in a grid; give another name"
        named = [name for name in self.settings if name or len(self.settings) > 1]
        yield from name_faults(named, "settings")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            yield ("seeds",), "seeds must be different whole numbers, such as 0,1,2"
        yield from self._faults_of_grid()
        yield from self.select.faults(self.seeds if self.grid else ())
        yield from self.report.faults(list(self.methods))

    def _faults_of_grid(self) -> Iterator[Fault]:
        for variant, searched in self.grid.items():
            for name, values in searched.items():
                way = ("grid", variant, name)
                words = [str(value) for value in values]
                twice = [word for word, count in Counter(words).items() if count > 1]
                if twice:
                    yield way, f"{twice[0]} stands there twice"
                for word in words:
                    if not word.strip() or set(word) & FORBIDDEN or not word.isprintable():
                        yield way, f"{word!r:.40} cannot be the name of a folder; search other values"
        for variant in self.methods:
            longest = max((len(spelled_point(point).encode()) for point in self.points(variant)), default=0)
            if longest > LONGEST_BYTES:
                yield ("grid",), f"the parameters of {variant!r} have names and values that are too long together"

    def points(self, variant: str) -> list[Point]:
        """Return the points of a variant's grid; one that has none has one point, with nothing to choose."""
        searched = dict(self.grid.get(ALL, {})) | dict(self.grid.get(variant, {}))
        named = [[(name, value) for value in values] for name, values in searched.items()]
        return list(itertools.product(*named))

    def is_searched(self, variant: str) -> bool:
        """Say whether parameters of a variant are to be chosen."""
        return len(self.points(variant)) > 1

    def columns(self) -> Iterator[tuple[str, str]]:
        """Yield every setting with every variant."""
        yield from itertools.product(self.settings, self.methods)


def name_faults(names: Iterable[str], of: str) -> Iterator[Fault]:
    """Yield what is wrong with names that are to be folders, one beside the other."""
    seen: dict[str, str] = {}
    for name in names:
        fault = _fault_of_name(name)
        if fault:
            yield (of, name), fault
        # Some systems take capitals for small letters, and write accents in another way.
        same = unicodedata.normalize("NFC", name).casefold()
        if same in seen:
            yield (of, name), f"the names {seen[same]!r} and {name!r} are the same folder on some systems; change one"
        seen[same] = name


def _fault_of_name(name: str) -> str:
    """Return why no folder can have a name, or nothing."""
    if set(name) & FORBIDDEN or not name.isprintable():
        return f"the name {name!r} holds a character that a folder cannot have; leave it out"
    if not name.strip() or name != name.strip() or name.startswith(".") or name.endswith("."):
        return f"the name {name!r} is empty, or begins or ends with a space or a point"
    if len(name) > LONGEST or len(name.encode()) > LONGEST_BYTES:
        return f"the name {name[:30]!r}... is longer than {LONGEST} characters"
    return ""


def log_range(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return numbers from `low` to `high` with equal ratios: 0.01, 0.1, 1 for three."""
    if not 0 < low < high < math.inf or not 2 <= count <= MANY:
        raise ConfigError(
            f"{PARAMETER} of a log range needs 0 < low < high and 2 to {MANY:,} numbers", parameter="grid"
        )
    ratio = math.log(high / low) / (count - 1)
    inner = [float(f"{low * math.exp(ratio * number):.6g}") for number in range(1, count - 1)]
    return (low, *inner, high)


def spelled_point(point: Point) -> str:
    """Return a point as people write it, which is its folder's name too: `rho=0.05,beta=10`."""
    return ",".join(f"{name.replace(':', '.')}={value}" for name, value in point)
