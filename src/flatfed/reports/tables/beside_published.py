"""Measured and published values of the same setting and metric, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flatfed.published.conditions import conditions_of
from flatfed.published.matching import NONE_PUBLISHED, Match, matching
from flatfed.published.wording import UNCERTAIN, value_record, value_text
from flatfed.reports.results.result import Result
from flatfed.reports.tables.columns import last_mean
from flatfed.reports.tables.extras import REPORTED
from flatfed.reports.tables.grid import ALWAYS, NOTHING, Column, Spread, number, table
from flatfed.runs.metrics import Metric

if TYPE_CHECKING:
    from rich.table import Table

OF_TESTS = {"accuracy": "accuracy_pct", "miou": "miou_pct"}
"""Metrics of a test set, and as the papers' tables name them; both in per cent there."""

OF_FLATNESS = {"lambda_max": "lambda_max", "lambda_ratio": "lambda_max_over_lambda_5", "lpf": "lpf"}
"""Measurements of flatness in a run's summary, and as the papers' tables name them."""

TESTS = {"test": ("", "seen"), "unseen": ("unseen",)}
"""Test sets here, and as the papers' tables name them; most name none."""


@dataclass(frozen=True)
class Beside:
    """A method's measured value beside a published one, both in the unit of the paper."""

    method: str
    measured: Spread | None
    match: Match


def beside_published(results: Sequence[Result]) -> dict[str, list[Beside]]:
    """Return for every method the published values of its setting whose metric was measured, the nearest first."""
    return {result.method: sorted(_of_result(result), key=_distance) for result in results}


def _distance(line: Beside) -> int:
    return len(line.match.differences) + len(line.match.unstated)


def _of_result(result: Result) -> Iterator[Beside]:
    for match in matching(result.runs[0].config):
        for metric in result.metrics:
            if _is_of_metric(match, metric):
                yield Beside(result.method, _in_percent(result.spread(f"{metric.stem}_{REPORTED}")), match)
        for name, published in OF_FLATNESS.items():
            spread = result.spread(name)
            if match.value.metric == published and spread is not None:
                yield Beside(result.method, spread, match)


def _is_of_metric(match: Match, metric: Metric) -> bool:
    if metric.hidden or OF_TESTS.get(metric.name) != match.value.metric:
        return False
    return conditions_of(match.value).test in TESTS.get(metric.test, ())


def _in_percent(spread: Spread | None) -> Spread | None:
    if spread is None:
        return None
    mean, deviation = spread
    return 100 * mean, None if deviation is None else 100 * deviation


# For the terminal.


def terminal_table(results: Sequence[Result]) -> Table | None:
    """Return the table of measured and published values; None where nothing was published."""
    lines = _lines(results)
    if not lines:
        return None
    common = _common(lines)
    columns = [
        Column("method", _method, ALWAYS, words=True),
        Column("metric", _metric, ALWAYS, words=True),
        Column(f"measured\n({last_mean(results)})", _measured, ALWAYS),
        Column("published", _published, ALWAYS),
        Column("where", _where, ALWAYS, words=True),
        Column("in what they differ", lambda line: _apart(line, common), ALWAYS, words=True),
    ]
    return table(lines, columns)


def notes(results: Sequence[Result]) -> list[str]:
    """Return what is said below the table: what holds for all lines, reasons, and methods without a value."""
    by_method = beside_published(results)
    lines = _lines(results)
    if not lines:
        return [NONE_PUBLISHED]
    missing = [method for method, found in by_method.items() if not found]
    texts = [f"{method}: {NONE_PUBLISHED}" for method in missing]
    reasons = dict.fromkeys(line.match.value.reason for line in lines if not line.match.value.is_certain)
    return [*map(_sentence, _common(lines)), *(f"{UNCERTAIN} {reason}" for reason in reasons), *texts]


def _sentence(difference: str) -> str:
    return f"all of these: {difference}"


def _lines(results: Sequence[Result]) -> list[Beside]:
    return [line for found in beside_published(results).values() for line in found]


def _statements(line: Beside) -> list[str]:
    """Return in what a published run differs from this one, or may."""
    unstated = [f"{name} not stated" for name in line.match.unstated]
    return [*line.match.differences, *unstated]


def _common(lines: Sequence[Beside]) -> list[str]:
    """Return what is said of every line, where there are several; it stands once below the table."""
    if len(lines) == 1:
        return []
    return [text for text in _statements(lines[0]) if all(text in _statements(line) for line in lines)]


def _apart(line: Beside, common: Sequence[str]) -> str:
    return "; ".join(text for text in _statements(line) if text not in common) or NOTHING


def _method(line: Beside) -> str:
    return line.method


def _metric(line: Beside) -> str:
    return line.match.value.metric


def _measured(line: Beside) -> str:
    return number(line.measured)


def _published(line: Beside) -> str:
    return value_text(line.match.value)


def _where(line: Beside) -> str:
    return f"{line.match.value.paper}, {line.match.value.table}"


# For machines.


def as_json(results: Sequence[Result]) -> dict[str, list[dict[str, Any]]]:
    """Return for every method the published values of its setting, each beside what was measured."""
    by_method = beside_published(results)
    return {method: [_record(line) for line in found] for method, found in by_method.items()}


def _record(line: Beside) -> dict[str, Any]:
    mean, deviation = line.measured or (None, None)
    return {
        "metric": line.match.value.metric,
        "measured": mean,
        "measured_std": deviation,
        "published": value_record(line.match.value),
        "differences": list(line.match.differences),
        "unstated": list(line.match.unstated),
    }
