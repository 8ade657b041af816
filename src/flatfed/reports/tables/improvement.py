"""How much better than a baseline: absolutely and relatively, by the value that papers report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flatfed.core.errors import ConfigError
from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.results import Result
from flatfed.reports.tables.extras import REPORTED, Extras, find_result
from flatfed.reports.tables.numbers import NOTHING
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
        base = find_result(results, extras.baseline, "--baseline")
        if base.primary.shown.higher_is_better is None:
            raise ConfigError(f"--baseline: whether a higher {base.primary.column} is better is not known")
        spread = base.spread(f"{base.primary.stem}_{REPORTED}")
        return cls(base.method, base.primary, spread[0] if spread else None)

    def improvement(self, value: float | None) -> float | None:
        """Return by how much a value is better: positive is better, also where lower values are."""
        if value is None or self.value is None:
            return None
        return value - self.value if self.metric.shown.higher_is_better else self.value - value

    def of_result(self, result: Result) -> float | None:
        """Return a method's improvement."""
        spread = result.spread(f"{self.metric.stem}_{REPORTED}")
        return self.improvement(spread[0]) if spread else None

    def of_run(self, run: OneRun) -> float | None:
        """Return one run's improvement over the baseline's mean: their mean is the method's."""
        return self.improvement(run.summary.get(f"{self.metric.stem}_{REPORTED}"))

    def relative(self, improvement: float | None) -> float | None:
        """Return an improvement as a share of the baseline's value."""
        return improvement / abs(self.value) if improvement is not None and self.value else None

    def absolute_text(self, result: Result) -> str:
        """Return the improvement in percentage points, or in the metric's unit."""
        found = self.of_result(result)
        if found is None:
            return NOTHING
        return f"{100 * found:+.2f}" if self.metric.shown.unit == "%" else f"{found:+.4g}"

    def relative_text(self, result: Result) -> str:
        """Return the relative improvement in per cent."""
        found = self.relative(self.of_result(result))
        return NOTHING if found is None else f"{100 * found:+.2f}"
