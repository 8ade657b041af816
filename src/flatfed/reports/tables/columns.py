"""The columns of a comparison's table: the primary metric, further ones, flatness, cost, and what was asked for."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from flatfed.reports.results.one_run import OneRun
from flatfed.reports.results.results import Result
from flatfed.reports.tables.extras import Extras
from flatfed.reports.tables.grid import ALWAYS, FIRST, LAST, Column
from flatfed.reports.tables.improvement import Baseline
from flatfed.reports.tables.numbers import Spread, megabytes, number, of_metric, spread_of
from flatfed.runs.metrics import Metric

COST_HEADINGS = ("down", "up", "backprops", "seconds")
FLATNESS = {"lambda_max": "λmax", "lambda_ratio": "λmax/λ5", "lpf": "LPF"}
PLAIN = Extras()


def columns(results: Sequence[Result], extras: Extras = PLAIN) -> list[Column[Result]]:
    """Return the columns of the table of some results."""
    return [
        Column("method", lambda result: result.method, ALWAYS, words=True),
        *_values(results),
        *_improvement(results, extras),
        *_at_rounds(results, extras),
        *_further(results),
        *(Column(FLATNESS[name], _plain(name), "flatness") for name in measured(results)),
        *_costs(results),
        Column("status", lambda result: result.status, FIRST, words=True),
    ]


def primary(results: Sequence[Result]) -> Metric:
    """Return the metric that a table goes by: that of the first method that has been evaluated."""
    return next((result.primary for result in results if result.metrics), results[0].primary)


def last_mean(results: Sequence[Result]) -> str:
    """Return the name of the last-n mean, with n where it is the same for all."""
    counts = {run.summary["last_count"] for result in results for run in result.good} - {0}
    return f"last-{counts.pop()} mean" if len(counts) == 1 else "last mean"


def measured(results: Sequence[Result]) -> list[str]:
    """Return the measures of flatness that some run has."""
    runs = [run for result in results for run in result.runs]
    return [name for name in FLATNESS if any(run.summary.get(name) is not None for run in runs)]


def has_client_seconds(results: Sequence[Result]) -> bool:
    """Say whether some run knows how long its clients took."""
    return any("client_seconds" in run.summary for result in results for run in result.runs)


def further(results: Sequence[Result]) -> list[Metric]:
    """Return what has columns besides the primary metric: other metrics of its test set, and it on further ones."""
    found: dict[Metric, None] = {}
    for result in results:
        main = result.primary
        others = [metric for metric in result.metrics if metric != main and not metric.hidden]
        found |= {m: None for m in others if (m.name != "loss" if m.test == main.test else m.name == main.name)}
    return list(found)


def value_at(run: OneRun, metric: Metric, round: int) -> float | None:
    """Return a metric after so many rounds, or None where it was not evaluated then."""
    return dict(metric.values(run.rows)).get(round - 1)


def spread_at(result: Result, round: int) -> Spread | None:
    """Return mean and deviation over seeds of the primary metric after so many rounds."""
    values = [value_at(run, result.primary, round) for run in result.good]
    return spread_of([value for value in values if value is not None])


def _values(results: Sequence[Result]) -> list[Column[Result]]:
    """Return the columns of the primary metric; best only where some method's metric has a direction."""
    kinds = {"final": "final", "last_mean": last_mean(results), "best": "best"}
    if not any(result.primary.shown.higher_is_better is not None for result in results):
        del kinds["best"]
    text = _of_primary(primary(results))
    return [Column(head, _summarised(text, kind), "values") for kind, head in kinds.items()]


def _of_primary(main: Metric) -> Callable[[Result, Spread | None], str]:
    """Return what writes a method's primary metric, with its name where it is not that of the table."""

    def text(result: Result, spread: Spread | None) -> str:
        own = result.primary
        return (f"{own.label} " if spread and own.column != main.column else "") + of_metric(own, spread)

    return text


def _summarised(text: Callable[[Result, Spread | None], str], kind: str) -> Callable[[Result], str]:
    return lambda result: text(result, result.spread(f"{result.primary.stem}_{kind}"))


def _improvement(results: Sequence[Result], extras: Extras) -> list[Column[Result]]:
    base = Baseline.of(results, extras)
    if base is None:
        return []
    points = "points" if base.metric.shown.unit == "%" else base.metric.label
    return [
        Column(f"{points} over\n{base.name}", base.absolute_text, "improvement"),
        Column(f"% over\n{base.name}", base.relative_text, "improvement"),
    ]


def _at_rounds(results: Sequence[Result], extras: Extras) -> list[Column[Result]]:
    text = _of_primary(primary(results))

    def at(round: int) -> Callable[[Result], str]:
        return lambda result: text(result, spread_at(result, round))

    return [Column(f"at {round}", at(round), f"at {round}") for round in extras.at]


def _further(results: Sequence[Result]) -> list[Column[Result]]:
    found = []
    for metric in further(results):
        name = metric.axis.removeprefix("test ")
        for kind, head in (("final", "final"), ("last_mean", last_mean(results))):
            found.append(Column(f"{name}\n{head}", _of_other(metric, kind), metric.column))
    return found


def _of_other(metric: Metric, kind: str) -> Callable[[Result], str]:
    return lambda result: of_metric(metric, result.spread(f"{metric.stem}_{kind}"))


def _plain(name: str) -> Callable[[Result], str]:
    return lambda result: number(result.spread(name))


def _costs(results: Sequence[Result]) -> list[Column[Result]]:
    texts: list[Callable[[Result], str]] = [
        lambda result: megabytes(result.mean("bytes_down")),
        lambda result: megabytes(result.mean("bytes_up")),
        lambda result: f"{result.mean('backprops'):,.0f}",
        lambda result: f"{result.mean('seconds'):.1f}",
    ]
    found = [Column(head, text, LAST) for head, text in zip(COST_HEADINGS, texts, strict=True)]
    if has_client_seconds(results):
        found.append(Column("s/client", _client_seconds, LAST))
    return found


def _client_seconds(result: Result) -> str:
    taken = [run.summary["client_seconds"] for run in result.runs if "client_seconds" in run.summary]
    return number((statistics.fmean(taken), None) if taken else None)
