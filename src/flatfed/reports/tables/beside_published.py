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

OF_FLATNESS = {
    "lambda_max": "lambda_max",
    "lambda_ratio": "lambda_max_over_lambda_5",
    "lpf": "lpf",
    "discrepancy": "delta_f",
}
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


@dataclass(frozen=True)
class _Line:
    """A line of the table: one published number, which may stand in several tables of a paper."""

    first: Beside
    tables: tuple[str, ...]

    @property
    def statements(self) -> list[str]:
        """In what the published run differs from this one, or may."""
        unstated = [f"{name} not stated" for name in self.first.match.unstated]
        return [*self.first.match.differences, *unstated]


def terminal_table(results: Sequence[Result]) -> Table | None:
    """Return the table of measured and published values; None where nothing was published."""
    lines = _lines(results)
    if not lines:
        return None
    common, metrics = _common(lines), dict.fromkeys(map(_metric, lines))
    columns = [
        Column("method", _method, ALWAYS, words=True),
        Column("metric", _metric, ALWAYS, words=True),
        Column("measured", _measured, ALWAYS),
        Column("published", _published, ALWAYS),
        Column("where", _where, ALWAYS, words=True),
        Column("in what they differ", lambda line: _apart(line, common), ALWAYS, words=True),
    ]
    if len(metrics) == 1:  # the caption says it
        del columns[1]
    return table(lines, columns, _caption(results, list(metrics)))


def _caption(results: Sequence[Result], metrics: Sequence[str]) -> str:
    if set(metrics).isdisjoint(OF_TESTS.values()):
        return f"published for the same setting: {', '.join(metrics)}"
    return f"published for the same setting: {', '.join(metrics)}; measured on a test set is the {last_mean(results)}"


def notes(results: Sequence[Result]) -> list[str]:
    """Return what is said below the table: what holds for all lines, reasons, and methods without a value."""
    lines = _lines(results)
    if not lines:
        return [NONE_PUBLISHED]
    with_values = {_method(line) for line in lines}
    missing = [result.method for result in results if result.method not in with_values]
    reasons = dict.fromkeys(filter(None, map(_reason, lines)))
    return [
        *(f"all of these: {text}" for text in _common(lines)),
        *(f"{UNCERTAIN} {reason}" for reason in reasons),
        *(f"{method}: {NONE_PUBLISHED}" for method in missing),
    ]


def _lines(results: Sequence[Result]) -> list[_Line]:
    """Return the lines; a number that a paper prints in several tables has one."""
    groups: dict[tuple[Any, ...], list[Beside]] = {}
    for beside in _every(results):
        groups.setdefault(_key(beside), []).append(beside)
    return [_Line(group[0], tuple(beside.match.value.table for beside in group)) for group in groups.values()]


def _every(results: Sequence[Result]) -> list[Beside]:
    return [beside for found in beside_published(results).values() for beside in found]


def _key(beside: Beside) -> tuple[Any, ...]:
    """Return what two published numbers have in common that are one."""
    value, match = beside.match.value, beside.match
    printed = (value.paper, value.metric, value.printed, value.status, value.reason)
    return (beside.method, beside.measured, *printed, match.differences, match.unstated)


def _common(lines: Sequence[_Line]) -> list[str]:
    """Return what is said of every line, where there are several; it stands once below the table."""
    if len(lines) == 1:
        return []
    return [text for text in lines[0].statements if all(text in line.statements for line in lines)]


def _apart(line: _Line, common: Sequence[str]) -> str:
    return "; ".join(text for text in line.statements if text not in common) or NOTHING


def _method(line: _Line) -> str:
    return line.first.method


def _metric(line: _Line) -> str:
    return line.first.match.value.metric


def _reason(line: _Line) -> str:
    return line.first.match.value.reason


def _measured(line: _Line) -> str:
    return number(line.first.measured)


def _published(line: _Line) -> str:
    return value_text(line.first.match.value)


def _where(line: _Line) -> str:
    """Return paper and tables: `fedsam, Tables 2, 6`."""
    paper, tables = line.first.match.value.paper, line.tables
    if len(tables) > 1 and all(name.startswith("Table ") for name in tables):
        return f"{paper}, Tables {', '.join(name.removeprefix('Table ') for name in tables)}"
    return f"{paper}, {', '.join(tables)}"


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
