"""The data of a page from results: plain values, ready for JSON; a part that has nothing is None or empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.configuration.checking import escaped
from flatfed.reports.page.citing import references
from flatfed.reports.page.client_view import (
    ClassTable,
    accuracy_tables,
    classes_data,
    client_values,
    participation_data,
    rejected_table,
)
from flatfed.reports.page.kept_landscapes import landscapes_data
from flatfed.reports.page.measured_flatness import (
    Measurements,
    densities_data,
    flatness_table,
    measurements_of,
    spectra_data,
)
from flatfed.reports.page.options_of_runs import environment_table, runs_table, settings_tables
from flatfed.reports.page.page_tables import published_table, results_table, target_tables
from flatfed.reports.page.series import curves_data, measured_over_rounds, numbers_of, rounded
from flatfed.reports.page.thin import points_each
from flatfed.reports.results.result import Result
from flatfed.reports.results.setting import comparison_lines, run_lines
from flatfed.reports.tables.columns import PLAIN
from flatfed.reports.tables.extras import Extras
from flatfed.runs.results import finite

Data = dict[str, Any]


@dataclass(frozen=True)
class ViewSource:
    """What one view of a page is made of: a run, a comparison, or one setting of a study.

    Attributes:
        name: what it is chosen by, where a page has several.
        results: its methods.
        command: what made it, where that is known.
        extras: what else its table shows.
        class_table: which client holds which classes, where the data were read.
        again: how to go on with it: what for, and the command.
    """

    name: str
    results: Sequence[Result]
    command: str = ""
    extras: Extras = PLAIN
    class_table: ClassTable | None = None
    again: Sequence[tuple[str, str]] = field(default_factory=list)


def gather(title: str, sources: Sequence[ViewSource], studies: Sequence[Data] = ()) -> Data:
    """Return all that a page shows; `studies` are tables and statistics that stand before the views."""
    curves = sum(len(source.results) * len(numbers_of(source.results)) for source in sources)
    views = [gather_view(source, points_each(curves)) for source in sources]
    cited = references([result for source in sources for result in source.results])
    data = {"title": title, "studies": list(studies), "views": views, "cite": cited}
    plain: Data = _clean(finite(data))
    return plain


def gather_view(source: ViewSource, points: int) -> Data:
    """Return what one view shows, with at most this number of points for each curve."""
    results = source.results
    return {
        "name": source.name,
        "command": source.command,
        "setting": _setting(results),
        "table": results_table(results, source.extras),
        "published": published_table(results),
        "curves": curves_data(results, points),
        "targets": target_tables(results, source.extras),
        "flatness": _flatness(results, measurements := measurements_of(results)),
        "clients": _clients(source, measurements),
        "settings": settings_tables(results),
        "environment": environment_table(results),
        "runs": runs_table(results),
        "again": [{"what": what, "command": command} for what, command in source.again],
    }


def _setting(results: Sequence[Result]) -> list[Data]:
    """Return the lines that say what was trained."""
    configs = [result.runs[0].config for result in results]
    if len(configs) == 1 and len(results[0].runs) == 1:
        lines = run_lines(configs[0])
    else:
        lines = comparison_lines(configs, [run.seed for run in results[0].runs])
    facts: list[Data] = []
    for name, text in lines:
        if name:
            facts.append({"name": name, "texts": [text]})
        else:  # it belongs to the line before it
            facts[-1]["texts"].append(text)
    return facts


def _flatness(results: Sequence[Result], measurements: Measurements) -> Data | None:
    parts = {
        "watched": measured_over_rounds(results),
        "table": flatness_table(measurements),
        "spectra": spectra_data(measurements),
        "densities": densities_data(measurements),
        "landscapes": landscapes_data(results),
    }
    return parts if any(parts.values()) else None


def _clients(source: ViewSource, measurements: Measurements) -> Data | None:
    values = client_values(source.results, measurements)
    boxes = [
        {"name": name.replace("_", " "), "methods": [{"method": m, "values": rounded(own)} for m, own in by.items()]}
        for name, by in values.items()
    ]
    parts = {
        "classes": classes_data(source.class_table),
        "participation": participation_data(source.results),
        "accuracies": boxes,
        "tables": accuracy_tables(values),
        "rejected": rejected_table(source.results),
    }
    return parts if any(parts.values()) else None


def _clean(value: Any) -> Any:
    """Return data whose texts show what they hold: characters that turn the direction of writing stand as codes."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {name: _clean(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_clean(entry) for entry in value]
    return value
