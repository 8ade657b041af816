"""How a study's parameters are chosen, and what is reported of its runs: the entries `select` and `report`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from flatfed.core.configuration.grammar import split
from flatfed.core.errors import ConfigError, nearest
from flatfed.experiments.spelling.methods import parse_measurements
from flatfed.flatness.measurement import Measurement
from flatfed.published.lookup import lookup
from flatfed.published.numbers import PublishedValue
from flatfed.studies.drawing.figure import Figure

Way = tuple[str, ...]
Fault = tuple[Way, str]
"""The way to an entry of a study, and what is wrong with it."""
By = Literal["seeds", "validation"]
WORDS = ("last", "final", "best")
REFERENCE = "reference"
"""The target that is the reference's own value."""
MEASURED = "lambda_ratio, lpf"
"""What `flatness: true` measures: λmax, λmax/λ5, LPF."""


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
        metrics: what the table has, columns of the history such as `miou` or `unseen_miou`: a table for each. The
            first decides marks, statistics and targets; the task's first where none is named.
        targets: accuracies in percent, or `reference`: in each setting the mean reported value of the reference;
            rounds and bytes to each are reported.
        reference: the variant with which the others are compared.
        flatness: what is measured of the final models, as `flatfed flatness --measure` takes it; True is `MEASURED`.
        flatness_samples: over how many training examples, drawn at random; None is all.
        published: the table or figure whose values stand beside: `fedgloss/table-3`.
        against: an option or parameter in which settings differ: the reported value is drawn against it.
        curves: columns of the history that are drawn; the reported metric where none is named.
        figures: pictures of finished runs, by name.
    """

    accuracy: str = "last"
    metrics: tuple[str, ...] = ()
    targets: tuple[float, ...] | str = ()
    reference: str = ""
    flatness: bool | str = False
    flatness_samples: int | None = None
    published: str = ""
    against: str = ""
    curves: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def faults(self, variants: Sequence[str]) -> Iterator[Fault]:
        """Yield what cannot be reported."""
        if self.accuracy not in WORDS and not _is_round(self.accuracy):
            yield ("report", "accuracy"), f"accuracy must be {', '.join(WORDS)} or round N, not {self.accuracy!r:.40}"
        # That there are no variants at all is said elsewhere.
        if self.reference and variants and self.reference not in variants:
            yield ("report", "reference"), nearest(self.reference, variants, "method")
        if len(set(self.metrics)) < len(self.metrics):
            yield ("report", "metrics"), "a metric stands there twice"
        yield from self._faults_of_names()

    def _faults_of_names(self) -> Iterator[Fault]:
        """Yield targets, measurements and tables that there are not."""
        if isinstance(self.targets, str) and self.targets != REFERENCE:
            yield ("report", "targets"), f"targets must be percentages or {REFERENCE}, not {self.targets!r:.40}"
        if self.flatness_samples is not None and self.flatness_samples < 1:
            yield ("report", "flatness_samples"), f"flatness_samples must be at least 1, not {self.flatness_samples}"
        for part in self._measurements():
            try:
                parse_measurements(part)
            except ConfigError as error:
                yield ("report", "flatness"), str(error)
        try:
            self.published_values()
        except ConfigError as error:
            yield ("report", "published"), str(error)

    def measured(self) -> list[Measurement]:
        """Return what is measured of the final models."""
        return [measurement for part in self._measurements() for measurement in parse_measurements(part)]

    def _measurements(self) -> list[str]:
        """Return each of the measurements as it is written."""
        if not self.flatness:
            return []
        return split(MEASURED if self.flatness is True else str(self.flatness), ",")

    def published_values(self) -> list[PublishedValue]:
        """Return the values of the table that stands beside."""
        if not self.published:
            return []
        paper, slash, table = self.published.partition("/")
        if not slash:
            raise ConfigError(f"{self.published!r:.60} names no table; write PAPER/TABLE, such as fedgloss/table-3")
        return lookup(paper, table)

    @property
    def round(self) -> int | None:
        """The round of `round N`."""
        if not _is_round(self.accuracy):
            return None
        return int(self.accuracy.partition(" ")[2])


def _is_round(text: str) -> bool:
    """Say whether a text is `round N`, counted from 1."""
    word, _, number = text.partition(" ")
    return word == "round" and number.isdecimal() and int(number) > 0
