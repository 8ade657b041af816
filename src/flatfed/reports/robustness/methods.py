"""Several methods under corruptions, side by side: the tables, the joint CSV and the figure."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import ConfigError
from flatfed.data.corruptions import STANDARD, corruptions
from flatfed.reports.figures.corruptions import Bars, draw_corruptions
from flatfed.reports.robustness.one_run import FAMILIES, LOSS, Robustness, records, show

if TYPE_CHECKING:
    from rich.table import Table

CLEAN = "clean"


@dataclass(frozen=True)
class MeasuredRun:
    """A run: where it lies, its seed, how it ended, and what was measured of its model."""

    path: Path
    seed: int
    status: str
    rounds: int
    found: Robustness

    @property
    def remark(self) -> str:
        """What a reader should know of a run that did not finish."""
        if self.status == "finished":
            return ""
        return f"this run is {self.status}; measured is its last checkpoint, round {self.found.round} of {self.rounds}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {"path": str(self.path), "seed": self.seed, "status": self.status, **self.found.to_dict()}


@dataclass(frozen=True)
class MethodRobustness:
    """One method over its seeds; `label` is its own among those side by side."""

    label: str
    runs: list[MeasuredRun]

    @property
    def counted(self) -> list[Robustness]:
        """What enters the means: finished runs; where there is none those under way, else all."""
        for among in (("finished",), ("running", "interrupted")):
            if good := [run.found for run in self.runs if run.status in among]:
                return good
        return [run.found for run in self.runs]

    @property
    def measure(self) -> str:
        """The figure that counts."""
        return self.counted[0].measure

    def values(self, name: str, severity: int) -> list[float]:
        """Return the figure under a corruption, of each seed; on clean images for `clean`."""
        if name == CLEAN:
            return [found.clean[found.measure] for found in self.counted]
        return [value for found in self.counted if (value := found.value(name, severity)) is not None]

    def means(self, severity: int, among: Iterable[str]) -> list[float]:
        """Return the mean over these corruptions, of each seed."""
        names = list(among)
        return [mean for found in self.counted if (mean := found.mean(severity, names)) is not None]


def severities(methods: Sequence[MethodRobustness]) -> list[int]:
    """Return the severities that were measured."""
    return sorted({s for method in methods for found in method.counted for s in found.severities})


def measured(methods: Sequence[MethodRobustness], severity: int) -> list[str]:
    """Return the corruptions that some method has, family by family."""
    order = sorted(corruptions(), key=lambda name: FAMILIES.index(corruptions()[name].family))
    return [name for name in order if any(method.values(name, severity) for method in methods)]


def shared(methods: Sequence[MethodRobustness], severity: int) -> list[str]:
    """Return the corruptions that every run of every method has: those over which means can be compared."""
    found = [one for method in methods for one in method.counted]
    names = measured(methods, severity)
    return [name for name in names if all(one.value(name, severity) is not None for one in found)]


def tables(methods: Sequence[MethodRobustness], width: int) -> list[Table]:
    """Return corruptions x methods for each severity, the mean last; in several tables where one is too wide."""
    return [table for severity in severities(methods) for table in _fitting(methods, methods, severity, width)]


def _fitting(
    shown: Sequence[MethodRobustness], methods: Sequence[MethodRobustness], severity: int, width: int
) -> list[Table]:
    from rich.console import Console

    whole = _table(shown, methods, severity)
    if len(shown) == 1 or Console(width=1000).measure(whole).maximum <= width:
        return [whole]
    half = (len(shown) + 1) // 2
    return [*_fitting(shown[:half], methods, severity, width), *_fitting(shown[half:], methods, severity, width)]


def _table(shown: Sequence[MethodRobustness], methods: Sequence[MethodRobustness], severity: int) -> Table:
    """Return the columns of some of the methods; rows and means are those of all."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    made.add_column(f"severity {severity}", no_wrap=True)
    for method in shown:
        made.add_column(method.label, justify="right", overflow="fold")
    made.add_column("images", no_wrap=True)
    names = measured(methods, severity)
    for place, name in enumerate(names):
        last = [corruptions()[other].family for other in names[place : place + 2]]
        cells = (spread(method.values(name, severity), method.measure) for method in shown)
        made.add_row(name, *cells, _source(shown, name), end_section=len(set(last)) > 1 or place + 1 == len(names))
    made.add_row(CLEAN, *(spread(method.values(CLEAN, severity), method.measure) for method in shown), "")
    for label, among in _among(shared(methods, severity)).items():
        means = (spread(method.means(severity, among), method.measure) for method in shown)
        made.add_row(label, *means, "", style="bold")
    return made


def _among(names: list[str]) -> dict[str, list[str]]:
    """Return over which corruptions means are taken: the benchmark's own, where these are others, then all."""
    standard = [name for name in names if name in STANDARD]
    means = {f"standard mean ({len(standard)} of {len(STANDARD)})": standard} if 0 < len(standard) < len(names) else {}
    return means | {f"mean ({len(names)} of {len(corruptions())})": names}


def _source(methods: Sequence[MethodRobustness], name: str) -> str:
    cells = [cell for method in methods for found in method.counted for cell in found.cells]
    return ", ".join(sorted({cell.source for cell in cells if cell.corruption == name}))


def spread(values: Sequence[float], measure: str) -> str:
    """Return the mean over seeds as people read it, with the sample standard deviation where there are several."""
    text = show(statistics.fmean(values) if values else None, measure)
    return text if len(values) < 2 else f"{text} ± {show(statistics.stdev(values), measure)}"


def caption(methods: Sequence[MethodRobustness]) -> str:
    """Say what the numbers are."""
    names = dict.fromkeys(method.measure for method in methods)
    told = " and ".join(name if name == LOSS else f"{name} in %" for name in names)
    if any(len(method.counted) > 1 for method in methods):
        told += ", mean ± sample standard deviation over seeds"
    wanted = severities(methods)
    if any(shared(methods, severity) != measured(methods, severity) for severity in wanted):
        told += "; means are over the corruptions that all have"
    return told


def as_csv(methods: Sequence[MethodRobustness]) -> str:
    """Return one line per run, corruption and severity."""
    lines = [
        {"method": method.label, "seed": run.seed, "path": str(run.path), "round": run.found.round} | record
        for method in methods
        for run in method.runs
        for record in records(run.found)
    ]
    ends = ["source", "faithful"]
    columns = [name for name in dict.fromkeys(name for line in lines for name in line) if name not in ends]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[*columns, *ends], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def draw(methods: Sequence[MethodRobustness], files: Sequence[Path]) -> None:
    """Draw a bar for each corruption and method at the highest severity; with several also the mean over each."""
    names = dict.fromkeys(method.measure for method in methods)
    wanted = severities(methods)
    if not wanted:
        raise ConfigError("there is nothing to draw")
    if len(names) > 1:
        raise ConfigError(f"the runs are measured by {' and '.join(names)}, which one figure cannot show")
    measure, severity = next(iter(names)), wanted[-1]
    bars = {method.label: _bars(method, methods, severity) for method in methods}
    trends = {method.label: _trend(method, methods, wanted) for method in methods} if len(wanted) > 1 else {}
    sets = ", ".join(dict.fromkeys(found.dataset for method in methods for found in method.counted))
    name = measure if measure == LOSS else f"{measure} (%)"
    draw_corruptions(bars, files, f"{name}, severity {severity}", f"corrupted test images of {sets}", trends)


def _bars(method: MethodRobustness, methods: Sequence[MethodRobustness], severity: int) -> Bars:
    """Return a method's figures, section by section: clean, the families, the mean."""
    names, scale = measured(methods, severity), 1.0 if method.measure == LOSS else 100.0
    sections = [[CLEAN], *([n for n in names if corruptions()[n].family == family] for family in FAMILIES)]
    values = [{n: method.values(n, severity) for n in section} for section in sections if section]
    values.append({"mean": method.means(severity, shared(methods, severity))})
    return [{n.replace("_", " "): [scale * v for v in of] for n, of in section.items()} for section in values]


def _trend(
    method: MethodRobustness, methods: Sequence[MethodRobustness], wanted: Sequence[int]
) -> dict[str, list[float]]:
    scale = 1.0 if method.measure == LOSS else 100.0
    points = {CLEAN: method.values(CLEAN, wanted[0])}
    points |= {str(severity): method.means(severity, shared(methods, severity)) for severity in wanted}
    return {name: [scale * value for value in values] for name, values in points.items()}
