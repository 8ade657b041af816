"""Several methods under corruptions, side by side: the tables, one CSV of all runs and the figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.corruptions import Bars, draw_corruptions
from flatfed.reports.results.result import UNDER_WAY
from flatfed.reports.robustness.one_run import (
    CLEAN,
    FAMILIES,
    LOSS,
    SOURCE,
    Robustness,
    axis_name,
    by_family,
    ends_family,
    members,
    overall_mean,
    records,
    scale_of,
    show,
    standard_mean,
)
from flatfed.reports.robustness.one_run import draw as draw_one
from flatfed.reports.tables.grid import columns_of, csv_text, empty_table, in_parts, known, spread_of

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class MeasuredRun:
    """A run: where it lies, its seed, how it ended, and what was measured of its model."""

    path: Path
    seed: int
    status: str
    rounds: int
    robustness: Robustness

    @property
    def remark(self) -> str:
        """What a reader should know of a run that did not finish."""
        if self.status == "finished":
            return ""
        reached = f"round {self.robustness.round} of {self.rounds}"
        return f"this run is {self.status}; measured is its last checkpoint, {reached}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {"path": str(self.path), "seed": self.seed, "status": self.status, **self.robustness.to_dict()}


@dataclass(frozen=True)
class MethodRobustness:
    """One method over its seeds; `label` is its own among those side by side."""

    label: str
    runs: list[MeasuredRun]

    @property
    def counted(self) -> list[Robustness]:
        """What enters the means: finished runs; where there is none those under way, else all."""
        runs = self._with_status("finished") or self._with_status(*UNDER_WAY) or self.runs
        return [run.robustness for run in runs]

    def _with_status(self, *statuses: str) -> list[MeasuredRun]:
        return [run for run in self.runs if run.status in statuses]

    @property
    def measure(self) -> str:
        """The metric that counts."""
        return self.counted[0].measure

    def values(self, name: str, severity: int) -> list[float]:
        """Return the metric under a corruption, of each seed; on clean images for `clean`."""
        if name == CLEAN:
            return [results.clean_value for results in self.counted]
        return known(results.value(name, severity) for results in self.counted)

    def means(self, severity: int, among: Iterable[str]) -> list[float]:
        """Return the mean over these corruptions, of each seed."""
        names = list(among)
        return known(results.mean(severity, names) for results in self.counted)

    def text(self, name: str, severity: int) -> str:
        """Return the metric under a corruption, over all seeds, as people read it."""
        return spread(self.values(name, severity), self.measure)


def _counted(methods: Sequence[MethodRobustness]) -> list[Robustness]:
    """Return what enters the means of all methods."""
    return [results for method in methods for results in method.counted]


def severities(methods: Sequence[MethodRobustness]) -> list[int]:
    """Return the severities that were measured."""
    return sorted({severity for results in _counted(methods) for severity in results.severities})


def measured(methods: Sequence[MethodRobustness], severity: int) -> list[str]:
    """Return the corruptions that some method has, family by family."""
    names = {name for results in _counted(methods) for name in results.at(severity, results.corruptions)}
    return by_family(names)


def shared(methods: Sequence[MethodRobustness], severity: int) -> list[str]:
    """Return the corruptions that every run of every method has: those over which means can be compared."""
    # A mean over other corruptions is another number: only what all have can be compared.
    names = measured(methods, severity)
    for results in _counted(methods):
        names = list(results.at(severity, names))
    return names


def tables(methods: Sequence[MethodRobustness], width: int) -> list[Table]:
    """Return corruptions x methods for each severity, the mean last; in several tables where one is too wide."""
    return [table for severity in severities(methods) for table in _of_severity(methods, severity, width)]


def _of_severity(methods: Sequence[MethodRobustness], severity: int, width: int) -> list[Table]:
    def make(part: Sequence[MethodRobustness]) -> Table:
        return _table(part, methods, severity)

    return in_parts(methods, make, _as_it_is, width)


def _as_it_is(table: Table) -> Table:
    return table


def _table(shown: Sequence[MethodRobustness], methods: Sequence[MethodRobustness], severity: int) -> Table:
    """Return the columns of some of the methods; rows and means are those of all."""
    made = empty_table()
    made.add_column(f"severity {severity}", no_wrap=True)
    for method in shown:
        made.add_column(method.label, justify="right", overflow="fold")
    made.add_column("images", no_wrap=True)
    names = measured(methods, severity)
    for name in names:
        made.add_row(name, *_texts(shown, name, severity), _source(shown, name), end_section=ends_family(name, names))
    made.add_row(CLEAN, *_texts(shown, CLEAN, severity), "")
    for label, among in _among(shared(methods, severity)).items():
        made.add_row(label, *_mean_texts(shown, among, severity), "", style="bold")
    return made


def _texts(methods: Sequence[MethodRobustness], name: str, severity: int) -> list[str]:
    """Return the cells of a corruption."""
    return [method.text(name, severity) for method in methods]


def _mean_texts(methods: Sequence[MethodRobustness], among: Sequence[str], severity: int) -> list[str]:
    """Return the cells of a mean over corruptions."""
    return [spread(method.means(severity, among), method.measure) for method in methods]


def _among(names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return over which corruptions means are taken: the benchmark's own, where these are others, then all."""
    return {**standard_mean(names), **overall_mean(names)}


def _source(methods: Sequence[MethodRobustness], name: str) -> str:
    sources = set[str]().union(*(results.sources(name) for results in _counted(methods)))
    return ", ".join(sorted(sources))


def spread(values: Sequence[float], measure: str) -> str:
    """Return the mean over seeds as people read it, with the sample standard deviation where there are several."""
    mean, deviation = spread_of(values) or (None, None)
    if deviation is None:
        return show(mean, measure)
    return f"{show(mean, measure)} ± {show(deviation, measure)}"


def caption(methods: Sequence[MethodRobustness]) -> str:
    """Say what the numbers are."""
    text = " and ".join(_with_unit(measure) for measure in _measures(methods))
    if len(_counted(methods)) > len(methods):  # a method has several seeds
        text += ", mean ± sample standard deviation over seeds"
    if not all(_have_the_same(methods, severity) for severity in severities(methods)):
        text += "; means are over the corruptions that all have"
    return text


def _with_unit(measure: str) -> str:
    if measure == LOSS:
        return measure
    return f"{measure} in %"


def _measures(methods: Sequence[MethodRobustness]) -> list[str]:
    """Return the metrics that count, each once."""
    return list(dict.fromkeys(method.measure for method in methods))


def _have_the_same(methods: Sequence[MethodRobustness], severity: int) -> bool:
    """Say whether all runs were measured under the same corruptions."""
    return shared(methods, severity) == measured(methods, severity)


def as_csv(methods: Sequence[MethodRobustness]) -> str:
    """Return one line per run, corruption and severity."""
    lines = [line for method in methods for line in _lines(method)]
    return csv_text(_columns(lines), lines)


def _columns(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return the columns; the source stands last, behind the metrics that only later runs have."""
    columns = [name for name in columns_of(lines) if name not in SOURCE]
    return [*columns, *SOURCE]


def _lines(method: MethodRobustness) -> list[dict[str, Any]]:
    lines = []
    for run in method.runs:
        head = {"method": method.label, "seed": run.seed, "path": str(run.path), "round": run.robustness.round}
        lines += [head | record for record in records(run.robustness)]
    return lines


def draw(methods: Sequence[MethodRobustness], files: Sequence[Path], setting: str = "") -> None:
    """Draw a bar for each corruption and method at the highest severity; with several also the mean over each.

    A `setting` that the runs have in common stands in the title.
    """
    chosen = severities(methods)
    if not chosen:
        raise ConfigError("there is nothing to draw")
    measure = _common_measure(methods)
    bars = {method.label: _bars(method, methods, chosen[-1]) for method in methods}
    sets = ", ".join(dict.fromkeys(results.dataset for results in _counted(methods)))
    x_name = f"{axis_name(measure)}, severity {chosen[-1]}"
    title = ", ".join(filter(None, (f"corrupted test images of {sets}", setting)))
    draw_corruptions(bars, files, x_name, title, _trends(methods, chosen))


def left_out(methods: Sequence[MethodRobustness]) -> list[str]:
    """Say which corruptions were left out and why, a line for each reason."""
    reasons: dict[str, str] = {}
    for method in methods:
        for run in method.runs:
            reasons |= run.robustness.skipped
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason, []).append(name)
    return [f"left out: {', '.join(names[reason])}: {reason}" for reason in names]


def draw_runs(methods: Sequence[MethodRobustness], files: Sequence[Path], setting: str = "") -> None:
    """Draw methods side by side, or a single run by itself: with its families in colours."""
    runs = [run for method in methods for run in method.runs]
    if len(runs) > 1:
        draw(methods, files, setting)
        return
    results = runs[0].robustness
    if not results.cells:
        raise ConfigError("there is nothing to draw")
    # Called as its method is here, which may have a name of its own.
    name = ", ".join(filter(None, (methods[0].label, setting)))
    draw_one(replace(results, method=name), files)


def _common_measure(methods: Sequence[MethodRobustness]) -> str:
    """Return the metric that counts for all methods: a figure has one scale."""
    measures = _measures(methods)
    if len(measures) > 1:
        raise ConfigError(f"the runs are measured by {' and '.join(measures)}, which one figure cannot show")
    return measures[0]


def _bars(method: MethodRobustness, methods: Sequence[MethodRobustness], severity: int) -> Bars:
    """Return a method's metrics, section by section: clean, the families, the mean."""
    names = measured(methods, severity)
    sections = [[CLEAN], *(members(family, names) for family in FAMILIES)]
    bars = [_section(method, section, severity) for section in sections if section]
    means = method.means(severity, shared(methods, severity))
    return [*bars, {"mean": _scaled(means, method)}]


def _section(method: MethodRobustness, names: Sequence[str], severity: int) -> dict[str, list[float]]:
    return {name.replace("_", " "): _scaled(method.values(name, severity), method) for name in names}


def _scaled(values: Sequence[float], method: MethodRobustness) -> list[float]:
    scale = scale_of(method.measure)
    return [scale * value for value in values]


def _trends(
    methods: Sequence[MethodRobustness], severities: Sequence[int]
) -> Mapping[str, Mapping[str, list[float]]] | None:
    """Return each method's means over the severities; nothing where there is one severity only."""
    if len(severities) == 1:
        return None
    return {method.label: _trend(method, methods, severities) for method in methods}


def _trend(
    method: MethodRobustness, methods: Sequence[MethodRobustness], severities: Sequence[int]
) -> dict[str, list[float]]:
    points = {CLEAN: method.values(CLEAN, severities[0])}
    for severity in severities:
        points[str(severity)] = method.means(severity, shared(methods, severity))
    return {name: _scaled(values, method) for name, values in points.items()}
