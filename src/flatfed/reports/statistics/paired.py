"""Methods compared with a reference, seed by seed: differences, intervals, p values, and when they say nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flatfed.bootstrap import Interval, bootstrap_interval
from flatfed.core.errors import ConfigError, nearest
from flatfed.reports.statistics.holm import holm
from flatfed.reports.statistics.permutation import pairs_needed, sign_flip_test, signed_rank_test, smallest_p

ALPHA = 0.05
FEW_FOR_INTERVALS = 10
"""Pairs below which intervals of the bootstrap hold the true mean in clearly fewer than 95 % of cases."""


@dataclass(frozen=True)
class SeedValues:
    """What one method came to in one setting.

    Attributes:
        values: by seed; one that is not finite is that of a run that diverged.
        without: seeds without a value, and why: `diverged`, `failed`, `waiting`.
    """

    values: Mapping[int, float]
    without: Mapping[int, str] = field(default_factory=dict)

    @property
    def finite(self) -> dict[int, float]:
        """The values that can be compared."""
        return {seed: value for seed, value in self.values.items() if math.isfinite(value)}

    @property
    def diverged(self) -> list[int]:
        """The seeds of runs that diverged."""
        lost = self.values.keys() - self.finite.keys()
        said = {seed for seed, state in self.without.items() if state == "diverged"}
        return sorted(lost | said)


@dataclass(frozen=True)
class PairedDifference:
    """A method minus the reference in one setting, over the seeds that both have.

    Attributes:
        setting: where.
        method: which.
        differences: by seed.
        mean: of the differences; None where there is none.
        interval: of the mean, BCa; None for fewer than two pairs.
        p: of the sign-flip test of the mean, two-sided; None where there is no pair.
        is_exact: whether all changes of signs were counted for it.
        p_holm: the same, corrected for all comparisons of the table.
        p_wilcoxon: of the signed ranks, uncorrected: a second opinion, not a second chance.
        remark: a sentence on what this comparison cannot say; empty where there is none.
    """

    setting: str
    method: str
    differences: Mapping[int, float]
    mean: float | None = None
    interval: Interval | None = None
    p: float | None = None
    is_exact: bool = True
    p_holm: float | None = None
    p_wilcoxon: float | None = None
    remark: str = ""

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p is at most 5 %."""
        return self.p_holm is not None and self.p_holm <= ALPHA

    def to_dict(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return {
            "setting": self.setting,
            "method": self.method,
            "pairs": len(self.differences),
            "differences": {str(seed): value for seed, value in self.differences.items()},
            "mean": self.mean,
            "low": self.interval and self.interval.low,
            "high": self.interval and self.interval.high,
            "p": self.p,
            "exact": self.is_exact,
            "p_holm": self.p_holm,
            "p_wilcoxon": self.p_wilcoxon,
            "significant": self.is_significant,
            "remark": self.remark,
        }


def compare_with_reference(samples: Mapping[tuple[str, str], SeedValues], reference: str) -> list[PairedDifference]:
    """Compare every method with the reference in every setting; `samples` are by setting and method.

    Holm's correction is over all comparisons that have a pair.
    """
    methods = list(dict.fromkeys(method for _, method in samples))
    if reference not in methods:
        raise ConfigError(nearest(reference, methods, "method"))
    compared = [
        _compared(setting, method, sample, samples[setting, reference])
        for (setting, method), sample in samples.items()
        if method != reference and (setting, reference) in samples
    ]
    return _corrected(compared)


def _compared(setting: str, method: str, sample: SeedValues, reference: SeedValues) -> PairedDifference:
    ours, theirs = sample.finite, reference.finite
    seeds = sorted(ours.keys() & theirs.keys())
    differences = {seed: ours[seed] - theirs[seed] for seed in seeds}
    remark = _lost_seeds(sample, reference)
    if not seeds:
        return PairedDifference(setting, method, {}, remark=f"There is no seed that both have. {remark}".strip())
    numbers = list(differences.values())
    tested = sign_flip_test(numbers)
    return PairedDifference(
        setting,
        method,
        differences,
        mean=math.fsum(numbers) / len(numbers),
        interval=bootstrap_interval(numbers),
        p=tested.p,
        is_exact=tested.is_exact,
        p_wilcoxon=signed_rank_test(numbers).p,
        remark=remark,
    )


def _lost_seeds(sample: SeedValues, reference: SeedValues) -> str:
    """Say that seeds are left out on which a run diverged: without them that method looks better than it is."""
    sentences = []
    for sample_of, name in ((sample, "the method"), (reference, "the reference")):
        if sample_of.diverged:
            listed = ", ".join(map(str, sample_of.diverged))
            sentences.append(f"With seed {listed} {name} diverged: this is left out, and favours {name}.")
    return " ".join(sentences)


def _corrected(compared: Sequence[PairedDifference]) -> list[PairedDifference]:
    tested = [one.p for one in compared if one.p is not None]
    corrected = iter(holm(tested))
    return [one if one.p is None else replace(one, p_holm=next(corrected)) for one in compared]


def warning(compared: Sequence[PairedDifference]) -> str:
    """Return a sentence where there are too few seeds for any comparison to be significant, else nothing."""
    tested = [one for one in compared if one.p is not None]
    if not tested:
        return "Nothing can be compared: no method has a seed in common with the reference."
    pairs = max(len(one.differences) for one in tested)
    smallest = min(len(tested) * smallest_p(pairs), 1.0)
    if smallest <= ALPHA:
        return ""
    needed = pairs_needed(len(tested))
    return (
        f"With {pairs} {_plural('seed', pairs)} and {len(tested)} {_plural('comparison', len(tested))} no p below "
        f"{smallest:.2g} is possible, so nothing can be significant at 5 %, whatever the runs say: "
        f"{needed} seeds are the fewest that can."
    )


def narrow_intervals(compared: Sequence[PairedDifference]) -> str:
    """Return a sentence where intervals are of so few pairs that they are too narrow, else nothing."""
    counts = [len(one.differences) for one in compared if one.interval is not None]
    if not counts or min(counts) >= FEW_FOR_INTERVALS:
        return ""
    return (
        f"Intervals of fewer than {FEW_FOR_INTERVALS} seeds are too narrow: the true difference lies outside in "
        "clearly more than 5 % of cases."
    )


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
