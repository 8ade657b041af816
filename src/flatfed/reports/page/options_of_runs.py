"""Settings in which methods differ and those in common, what runs were made with, and how each ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.outside.origins import told_origins
from flatfed.reports.page.page_tables import TableData, table_data
from flatfed.reports.results.result import INTERNAL, OneRun, Result, all_runs, identity
from flatfed.reports.tables.grid import NOTHING, columns_of
from flatfed.runs.environment import read_environment

NO_OPTIONS = {INTERNAL, "task.kind"}
Options = dict[str, str]


def settings_tables(results: Sequence[Result]) -> dict[str, TableData | None]:
    """Return the settings that differ, a column for each method, and those in common."""
    options = [_options(result) for result in results]
    names = columns_of(options)
    common = [name for name in names if len({own.get(name) for own in options}) == 1]
    different = [name for name in names if name not in common]
    return {
        "different": _different(results, options, different),
        "common": _common(options[0], common),
    }


def _options(result: Result) -> Options:
    """Return the settings of a method by dotted name."""
    values = identity(result.runs[0].config)
    return {name: _text(value) for name, value in values.items() if name not in NO_OPTIONS}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value, default=str)


def _different(results: Sequence[Result], options: Sequence[Options], names: Sequence[str]) -> TableData | None:
    if not names:
        return None
    rows = [[name, *(own.get(name, NOTHING) for own in options)] for name in names]
    heads = ["setting", *(result.method for result in results)]
    return table_data(heads, rows, range(len(heads)), caption="Settings that differ")


def _common(options: Options, names: Sequence[str]) -> TableData | None:
    if not names:
        return None
    rows = [[name, options[name]] for name in names]
    return table_data(["setting", "value"], rows, (0, 1), caption="Settings in common")


def environment_table(results: Sequence[Result]) -> TableData | None:
    """Return versions and machine: once for runs that were made with the same; None where nothing was recorded."""
    groups: dict[str, tuple[Options, int]] = {}
    for run in all_runs(results):
        recorded = _environment(run)
        if recorded:
            key = json.dumps(recorded, sort_keys=True)
            groups[key] = recorded, groups.get(key, (recorded, 0))[1] + 1
    if not groups:
        return None
    recorded_ones = [recorded for recorded, _ in groups.values()]
    rows = [[name, *(own.get(name, NOTHING) for own in recorded_ones)] for name in columns_of(recorded_ones)]
    heads = ["", *(f"{count} run{'s' if count > 1 else ''}" for _, count in groups.values())]
    return table_data(heads, rows, range(len(heads)), caption="What the runs were made with")


def _environment(run: OneRun) -> Options:
    try:
        recorded: Mapping[str, Any] = read_environment(run.path)
    except (FlatfedError, OSError):
        return {}
    names = {"python": "Python", "cpu": "CPU instructions", "machine": "machine", "platform": "platform"}
    packages = {str(name): str(version) for name, version in (recorded.get("packages") or {}).items()}
    machine = {shown: str(recorded[name]) for name, shown in names.items() if recorded.get(name)}
    return packages | machine | told_origins(run.config)


def runs_table(results: Sequence[Result]) -> TableData:
    """Return every run: how it ended, why, and where it lies."""
    rows = []
    for result in results:
        for run in result.runs:
            summary = run.summary
            reason = (summary.get("reason") or "").partition("\n")[0]
            rows.append(
                [result.method, str(run.seed), str(summary["rounds"]), summary["status"], reason, str(run.path)]
            )
    heads = ["method", "seed", "rounds", "status", "reason", "folder"]
    if not any(row[4] for row in rows):
        heads, rows = [*heads[:4], heads[5]], [[*row[:4], row[5]] for row in rows]
    words = [place for place, head in enumerate(heads) if head not in ("seed", "rounds")]
    return table_data(heads, rows, words, caption="Runs")
