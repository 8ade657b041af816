"""What a report shows on demand: values at given rounds, the cost to reach targets, the improvement over a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.reports.results.results import Result
from flatfed.runs.metrics import Metric

REPORTED = "last_mean"
"""What papers report as final accuracy: the mean over the last rounds."""
VALUES = {"final": REPORTED, "last": "final", "best": "best"}
"""What stands behind `METHOD:` in a target, as summaries call it."""
WORDS = {"final": "last-n mean", "last": "value after the last round", "best": "best value"}


@dataclass(frozen=True)
class Target:
    """A value to reach: a number, or a method's own value.

    Attributes:
        text: as it was written.
        value: the number; None where it is a method's.
        method: whose value it is, or None.
        which: `final`, `last` or `best`.
    """

    text: str
    value: float | None = None
    method: str | None = None
    which: str = "final"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `0.75`, `75%` or `fedavg:final`."""
        method, colon, which = text.strip().rpartition(":")
        if colon:
            if which not in VALUES:
                raise ConfigError(f"--target {text}: {nearest(which, VALUES, 'value of a method')}")
            return cls(text.strip(), None, method, which)
        try:
            share = text.strip().endswith("%")
            return cls(text.strip(), float(which.removesuffix("%")) / (100 if share else 1))
        except ValueError:
            raise ConfigError(f"--target {text}: neither a number such as 0.75 nor METHOD:final") from None


@dataclass(frozen=True)
class Extras:
    """Values `at` these rounds (counted from 1), the cost to reach `targets`, the improvement over `baseline`."""

    at: tuple[int, ...] = ()
    targets: tuple[Target, ...] = ()
    baseline: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return them, ready for JSON."""
        return {"at": list(self.at), "targets": [target.text for target in self.targets], "baseline": self.baseline}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Extras:
        """Undo `to_dict`."""
        targets = tuple(Target.parse(text) for text in data.get("targets", ()))
        return cls(tuple(data.get("at", ())), targets, data.get("baseline"))

    def check_methods(self, methods: Sequence[str]) -> None:
        """Refuse the name of a method that is not compared."""
        for target in self.targets:
            if target.method is not None and target.method not in methods:
                raise ConfigError(f"--target {target.text}: {nearest(target.method, methods, 'method here')}")
        if self.baseline is not None and self.baseline not in methods:
            raise ConfigError(f"--baseline: {nearest(self.baseline, methods, 'method here')}")

    def check_metric(self, metric: Metric) -> None:
        """Refuse targets that the metric cannot have."""
        if self.targets and metric.shown.higher_is_better is None:
            raise ConfigError(
                f"--target: whether a higher {metric.column} is better is not known; say so in the metrics' `shown`: "
                f"{{{metric.name!r}: ff.Shown(higher_is_better=True)}}"
            )
        for target in self.targets:
            if metric.shown.unit == "%" and target.value is not None and not 0 <= target.value <= 1:
                hint = f"{target.value / 100:g}" if 1 < target.value <= 100 else "0.75"
                raise ConfigError(f"--target {target.text}: {metric.label} lies between 0 and 1; write {hint}, or 75%")


def find_result(results: Sequence[Result], name: str, option: str) -> Result:
    """Return the result of a method, by its label in the table or, where that is one only, its spelling."""
    labelled = [result for result in results if result.method == name]
    found = labelled or [result for result in results if result.runs[0].config["method"] == name]
    if len(found) > 1:
        labels = ", ".join(repr(result.method) for result in found)
        raise ConfigError(f"{option}: {name!r} is several methods here; name one of {labels}")
    if not found:
        raise ConfigError(f"{option}: {nearest(name, [r.method for r in results], 'method here')}")
    return found[0]
