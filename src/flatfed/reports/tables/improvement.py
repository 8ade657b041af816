"""How much better than a baseline: absolutely and relatively, by the value that papers report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.result import Result
from flatfed.reports.tables.extras import REPORTED, Extras, find_result
from flatfed.reports.tables.numbers import NOTHING, mean_of
from flatfed.runs.metrics import Metric


@dataclass(frozen=True)
class Baseline:
    """A method that the others are held against, by its mean over seeds of the last-n mean."""

    name: str
    metric: Metric
    value: float | None

    @classmethod
    def of(cls, results: Sequence[Result], extras: Extras) -> Baseline | None:
        """Return the baseline that was asked for, if one was."""
        if extras.baseline is None:
            return None
        base = find_result(results, extras.baseline, "baseline")
        if base.primary.shown.higher_is_better is None:
            raise ConfigError(f"baseline: whether a higher {base.primary.column} is better is not known")
        return cls(base.method, base.primary, mean_of(base.spread(_reported(base.primary))))

    def improvement(self, value: float | None) -> float | None:
        """Return by how much a value is better: positive is better, also where lower values are."""
        if value is None or self.value is None:
            return None
        if self.metric.shown.higher_is_better:
            return value - self.value
        return self.value - value

    def of_result(self, result: Result) -> float | None:
        """Return a method's improvement."""
        return self.improvement(mean_of(result.spread(_reported(self.metric))))

    def of_run(self, run: OneRun) -> float | None:
        """Return one run's improvement over the baseline's mean: their mean is the method's."""
        return self.improvement(run.summary.get(_reported(self.metric)))

    def relative(self, improvement: float | None) -> float | None:
        """Return an improvement as a share of the baseline's value."""
        # A baseline of 0 has no share.
        if improvement is None or not self.value:
            return None
        # A baseline below 0 must not turn the sign.
        return improvement / abs(self.value)

    def record(self, improvement: float | None) -> dict[str, Any]:
        """Return an improvement for CSV and JSON."""
        return {"improvement": improvement, "improvement_relative": self.relative(improvement)}

    def absolute_text(self, result: Result) -> str:
        """Return the improvement in percentage points, or in the metric's unit."""
        improvement = self.of_result(result)
        if improvement is None:
            return NOTHING
        if self.metric.shown.unit == "%":
            return f"{100 * improvement:+.2f}"
        return f"{improvement:+.4g}"

    def relative_text(self, result: Result) -> str:
        """Return the relative improvement in per cent."""
        share = self.relative(self.of_result(result))
        if share is None:
            return NOTHING
        return f"{100 * share:+.2f}"


def _reported(metric: Metric) -> str:
    """Return the name in summaries of what papers report."""
    return f"{metric.stem}_{REPORTED}"
