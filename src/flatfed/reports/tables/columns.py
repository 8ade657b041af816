"""The columns of a comparison's table: the primary metric, further ones, flatness, cost, and what was asked for."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.reports.results.result import OneRun, Result, all_runs
from flatfed.reports.tables.extras import REPORTED, Extras, find_result
from flatfed.reports.tables.grid import (
    ALWAYS,
    FIRST,
    LAST,
    NOTHING,
    Column,
    Spread,
    known,
    mean_of,
    megabytes,
    number,
    of_metric,
    spread_of,
)
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


COST_HEADINGS = {"down": 4, "up": 8, "backprops": 1, "seconds": 5}
VALUE_RANKS = {"final": 0, "last_mean": 0, "best": 7}
FLATNESS_RANKS = {"lambda_max": 2, "lambda_ratio": 9, "lpf": 6}
"""Which columns a narrow terminal does without: the higher, the sooner."""
FLATNESS = {"lambda_max": "λmax", "lambda_ratio": "λmax/λ5", "lpf": "LPF"}
PLAIN = Extras()


def columns(results: Sequence[Result], extras: Extras = PLAIN) -> list[Column[Result]]:
    """Return the columns of the table of some results."""
    return [
        Column("method", method_of, ALWAYS, words=True),
        *_values(results),
        *_improvement(results, extras),
        *_at_rounds(results, extras),
        *_further(results),
        *_flatness(results),
        *_costs(results),
        # That all came to their end is no news.
        Column("status", _status, FIRST, words=True, rank=3 if _are_finished(results) else 0),
    ]


def method_of(result: Result) -> str:
    """Return the label of a method."""
    return result.method


def _are_finished(results: Sequence[Result]) -> bool:
    return all(result.status == "finished" for result in results)


def _status(result: Result) -> str:
    return result.status


def primary(results: Sequence[Result]) -> Metric:
    """Return the metric that a table goes by: that of the first method that has been evaluated."""
    for result in results:
        if result.metrics:
            return result.primary
    return results[0].primary


def last_mean(results: Sequence[Result]) -> str:
    """Return the name of the last-n mean, with n where it is the same for all."""
    # A run that has not been evaluated counts 0 rounds.
    counts = {run.summary["last_count"] for result in results for run in result.good} - {0}
    if len(counts) == 1:
        return f"last-{counts.pop()} mean"
    return "last mean"


def measured(results: Sequence[Result]) -> list[str]:
    """Return the measures of flatness that some run has."""
    runs = all_runs(results)
    return [name for name in FLATNESS if _has(runs, name)]


def _has(runs: Sequence[OneRun], name: str) -> bool:
    return any(run.summary.get(name) is not None for run in runs)


def has_client_seconds(results: Sequence[Result]) -> bool:
    """Say whether some run knows how long its clients took."""
    return any("client_seconds" in run.summary for run in all_runs(results))


def further(results: Sequence[Result]) -> list[Metric]:
    """Return what has columns besides the primary metric: other metrics of its test set, and it on further ones."""
    metrics: dict[Metric, None] = {}
    for result in results:
        metrics |= dict.fromkeys(_beside_primary(result))
    return list(metrics)


def _beside_primary(result: Result) -> list[Metric]:
    main = result.primary
    return [metric for metric in result.metrics if metric != main and _is_related(metric, main)]


def _is_related(metric: Metric, main: Metric) -> bool:
    """Say whether a metric has columns beside the primary one: a loss has none, nor what differs in everything."""
    if metric.hidden:
        return False
    if metric.test == main.test:
        return metric.name != "loss"
    return metric.name == main.name


def value_at(run: OneRun, metric: Metric, round: int) -> float | None:
    """Return a metric after n rounds, or None where it was not evaluated then."""
    return dict(metric.values(run.rows)).get(round - 1)


def spread_at(result: Result, round: int) -> Spread | None:
    """Return mean and deviation over seeds of the primary metric after n rounds."""
    return spread_of(known(value_at(run, result.primary, round) for run in result.good))


def _values(results: Sequence[Result]) -> list[Column[Result]]:
    """Return the columns of the primary metric; best only where some method's metric has a direction."""
    heads = {"final": "final", "last_mean": last_mean(results)}
    if _has_direction(results):
        heads["best"] = "best"
    text = _of_primary(primary(results))
    return [Column(head, _summarised(text, kind), "values", rank=VALUE_RANKS[kind]) for kind, head in heads.items()]


def _has_direction(results: Sequence[Result]) -> bool:
    return any(result.primary.shown.higher_is_better is not None for result in results)


def _of_primary(main: Metric) -> Callable[[Result, Spread | None], str]:
    """Return what writes a method's primary metric, with its name where it is not that of the table."""

    def text(result: Result, spread: Spread | None) -> str:
        own = result.primary
        value = of_metric(own, spread)
        # A table may hold tasks with different metrics: a number without its name would be taken for the table's.
        if spread and own.column != main.column:
            return f"{own.label} {value}"
        return value

    return text


def _summarised(text: Callable[[Result, Spread | None], str], kind: str) -> Callable[[Result], str]:
    return lambda result: text(result, result.spread(f"{result.primary.stem}_{kind}"))


def _improvement(results: Sequence[Result], extras: Extras) -> list[Column[Result]]:
    base = Baseline.of(results, extras)
    if base is None:
        return []
    points = _points(base.metric)
    return [
        Column(f"{points} over\n{base.name}", base.absolute_text, "improvement"),
        Column(f"% over\n{base.name}", base.relative_text, "improvement"),
    ]


def _points(metric: Metric) -> str:
    """Return the unit of a difference: per cent differ by percentage points."""
    if metric.shown.unit == "%":
        return "points"
    return metric.label


def _at_rounds(results: Sequence[Result], extras: Extras) -> list[Column[Result]]:
    text = _of_primary(primary(results))
    return [Column(f"at {round}", _at_round(text, round), f"at {round}") for round in extras.at]


def _at_round(text: Callable[[Result, Spread | None], str], round: int) -> Callable[[Result], str]:
    return lambda result: text(result, spread_at(result, round))


def _further(results: Sequence[Result]) -> list[Column[Result]]:
    columns = []
    for metric in further(results):
        name = metric.axis.removeprefix("test ")
        columns.append(Column(f"{name}\nfinal", _of_other(metric, "final"), metric.column, rank=5))
        columns.append(Column(f"{name}\n{last_mean(results)}", _of_other(metric, "last_mean"), metric.column, rank=6))
    return columns


def _of_other(metric: Metric, kind: str) -> Callable[[Result], str]:
    return lambda result: of_metric(metric, result.spread(f"{metric.stem}_{kind}"))


def _flatness(results: Sequence[Result]) -> list[Column[Result]]:
    return [Column(FLATNESS[name], _plain(name), "flatness", rank=FLATNESS_RANKS[name]) for name in measured(results)]


def _plain(name: str) -> Callable[[Result], str]:
    return lambda result: number(result.spread(name))


def _costs(results: Sequence[Result]) -> list[Column[Result]]:
    texts = (_bytes_down, _bytes_up, _backprops, _seconds)
    heads = zip(COST_HEADINGS.items(), texts, strict=True)
    columns = [Column(head, text, LAST, rank=rank) for (head, rank), text in heads]
    if has_client_seconds(results):
        columns.append(Column("s/client", _client_seconds, LAST, rank=10))
    return columns


def _bytes_down(result: Result) -> str:
    return megabytes(result.mean("bytes_down"))


def _bytes_up(result: Result) -> str:
    return megabytes(result.mean("bytes_up"))


def _backprops(result: Result) -> str:
    return f"{result.mean('backprops'):,.0f}"


def _seconds(result: Result) -> str:
    return f"{result.mean('seconds'):.1f}"


def _client_seconds(result: Result) -> str:
    seconds = known(run.summary.get("client_seconds") for run in result.runs)
    if not seconds:
        return NOTHING
    return number((statistics.fmean(seconds), None))
