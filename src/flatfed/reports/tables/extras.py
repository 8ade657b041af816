"""What a report shows on demand: values at given rounds, the cost to reach targets, the improvement over a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError, nearest
from flatfed.reports.results.result import Result
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
        # From the right: the options of a method may hold a colon.
        method, colon, which = text.strip().rpartition(":")
        if not colon:
            return cls(text.strip(), _number(text))
        if which not in VALUES:
            raise ConfigError(f"target {text}: {nearest(which, VALUES, 'value of a method')}")
        return cls(text.strip(), None, method, which)

    def check_range(self, metric: Metric) -> None:
        """Raise a `ConfigError` where a share is not between 0 and 1."""
        if metric.shown.unit != "%" or self.value is None or 0 <= self.value <= 1:
            return
        hint = _as_share(self.value)
        raise ConfigError(f"target {self.text}: {metric.label} lies between 0 and 1; write {hint}, or 75%")


def _as_share(value: float) -> str:
    """Return the share that may have been meant: a number up to 100 is read as per cent without the sign."""
    if 1 < value <= 100:
        return f"{value / 100:g}"
    return "0.75"


def _number(text: str) -> float:
    """Read `0.75` or `75%`."""
    digits = text.strip()
    try:
        if digits.endswith("%"):
            return float(digits.removesuffix("%")) / 100
        return float(digits)
    except ValueError:
        raise ConfigError(f"target {text}: neither a number such as 0.75 nor METHOD:final") from None


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
        """Raise a `ConfigError` for the name of a method that is not compared."""
        for target in self.targets:
            _check_name(target.method, methods, f"target {target.text}")
        _check_name(self.baseline, methods, "baseline")

    def check_metric(self, metric: Metric) -> None:
        """Raise a `ConfigError` for targets that the metric cannot have."""
        for target in self.targets:
            _check_direction(metric)
            target.check_range(metric)


def _check_direction(metric: Metric) -> None:
    if metric.shown.higher_is_better is None:
        raise ConfigError(
            f"target: whether a higher {metric.column} is better is not known; say so in the metrics' `shown`: "
            f"{{{metric.name!r}: ff.Shown(higher_is_better=True)}}"
        )


def _check_name(name: str | None, methods: Sequence[str], role: str) -> None:
    if name is not None and name not in methods:
        raise ConfigError(f"{role}: {nearest(name, methods, 'method here')}")


def find_result(results: Sequence[Result], name: str, role: str) -> Result:
    """Return the result of a method, by its label in the table or, where that is one only, its spelling.

    `role` says in errors what the method was named for.
    """
    # A label is one result's own, and a spelling may be that of several.
    matches = _labelled(results, name) or _spelled(results, name)
    if len(matches) > 1:
        labels = ", ".join(map(repr, _labels(matches)))
        raise ConfigError(f"{role}: {name!r} is several methods here; name one of {labels}")
    if not matches:
        raise ConfigError(f"{role}: {nearest(name, _labels(results), 'method here')}")
    return matches[0]


def _labels(results: Sequence[Result]) -> list[str]:
    return [result.method for result in results]


def _labelled(results: Sequence[Result], name: str) -> list[Result]:
    return [result for result in results if result.method == name]


def _spelled(results: Sequence[Result], name: str) -> list[Result]:
    return [result for result in results if result.runs[0].config["method"] == name]
