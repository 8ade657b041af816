"""Accuracy under corruptions: the table, the files beside the run, and the figure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flatfed.data.corruptions import STANDARD, corruptions
from flatfed.reports.figures.drawing.style import COLOURS, COLUMN, PAGE, available, finish, in_style, new_figure
from flatfed.reports.figures.drawing.writing import ENDINGS, PictureFiles
from flatfed.reports.tables.grid import NOTHING, csv_text, empty_table, known_items
from flatfed.runs.records.files import replace_file, write_json

if TYPE_CHECKING:
    from rich.table import Table

Value = TypeVar("Value")

FORMAT = 2
FILE = "robustness.json"
FAMILIES = ("noise", "blur", "weather", "digital")
LOSS = "loss"
CLEAN = "clean"
PLACE = ("corruption", "family", "severity")
SOURCE = ("source", "faithful")


@dataclass(frozen=True)
class CorruptionCell:
    """The metrics of a model under one corruption at one severity, on published or on generated images."""

    corruption: str
    severity: int
    source: str
    metrics: dict[str, float]

    def is_of(self, name: str, severity: int) -> bool:
        """Say whether this is a corruption at a severity."""
        return self.corruption == name and self.severity == severity


@dataclass(frozen=True)
class Robustness:
    """What was measured of a run's model: which run, after how many rounds, and each corruption.

    `examples` counts the clean test images; `skipped` says why a corruption was left out.
    """

    method: str
    round: int
    dataset: str
    examples: int
    clean: dict[str, float]
    cells: list[CorruptionCell] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """The metric that counts: accuracy, else what the task measures, else the loss."""
        if "accuracy" in self.clean:
            return "accuracy"
        others = [name for name in self.clean if name != LOSS]
        return next(iter(others), LOSS)

    @property
    def severities(self) -> list[int]:
        """The severities that were measured."""
        return sorted({cell.severity for cell in self.cells})

    @property
    def corruptions(self) -> list[str]:
        """The corruptions that were measured, family by family."""
        return by_family({cell.corruption for cell in self.cells})

    def value(self, name: str, severity: int) -> float | None:
        """Return the metric that counts under a corruption."""
        for cell in self.cells:
            if cell.is_of(name, severity):
                return cell.metrics.get(self.measure)
        return None

    def text(self, name: str, severity: int) -> str:
        """Return the same as people read it."""
        return show(self.value(name, severity), self.measure)

    @property
    def clean_value(self) -> float:
        """The metric that counts on clean images."""
        return self.clean[self.measure]

    def at(self, severity: int, among: Iterable[str]) -> dict[str, float]:
        """Return the metric that counts under each of these corruptions that was measured."""
        return known_items({name: self.value(name, severity) for name in among})

    def mean(self, severity: int, among: Iterable[str] | None = None) -> float | None:
        """Return the mean over corruptions at a severity."""
        names = corruptions() if among is None else among
        values = self.at(severity, names).values()
        if not values:
            return None
        return statistics.fmean(values)

    def _means(self, among: Iterable[str]) -> dict[str, float | None]:
        names = list(among)
        return {str(severity): self.mean(severity, names) for severity in self.severities}

    def only(self, names: Sequence[str], severities: Sequence[int]) -> Robustness:
        """Return the part that was asked for."""
        wanted = set(itertools.product(names, severities))
        cells = [cell for cell in self.cells if (cell.corruption, cell.severity) in wanted]
        return replace(self, cells=cells, skipped=_chosen(self.skipped, names))

    def sources(self, name: str) -> set[str]:
        """Return where the images of a corruption came from."""
        return {cell.source for cell in self.cells if cell.corruption == name}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "method": self.method,
            "round": self.round,
            "dataset": self.dataset,
            "examples": self.examples,
            "clean": self.clean,
            "mean": self._means(corruptions()),
            "mean_standard": self._means(STANDARD),
            "cells": [_record(cell) for cell in self.cells],
            "skipped": self.skipped,
        }


def family_of(name: str) -> str:
    """Return the family of a corruption."""
    return corruptions()[name].family


def members(family: str, among: Iterable[str]) -> list[str]:
    """Return the corruptions of a family."""
    return [name for name in among if family_of(name) == family]


def by_family(among: Iterable[str]) -> list[str]:
    """Return corruptions in the order of tables: family by family, and within one as the benchmark lists them."""
    chosen = _chosen(corruptions(), list(among))
    return [name for family in FAMILIES for name in members(family, chosen)]


def _record(cell: CorruptionCell) -> dict[str, Any]:
    corruption = corruptions()[cell.corruption]
    # Published images are the benchmark; what is generated here is only for some corruptions the same.
    faithful = cell.source == "published" or corruption.faithful
    place = {"corruption": cell.corruption, "family": corruption.family, "severity": cell.severity}
    return place | cell.metrics | {"source": cell.source, "faithful": faithful}


def from_dict(data: dict[str, Any]) -> Robustness:
    """Undo `to_dict`."""
    cells = [_cell(record) for record in data["cells"]]
    names = ("method", "round", "dataset", "examples", "clean", "skipped")
    return Robustness(cells=cells, **{name: data[name] for name in names})


def _cell(record: dict[str, Any]) -> CorruptionCell:
    """Undo `_record`: what is no place and no source is a metric."""
    metrics = _chosen(record, record.keys() - {*PLACE, *SOURCE})
    return CorruptionCell(record["corruption"], record["severity"], record["source"], metrics)


def write(results: Robustness, directory: Path, key: dict[str, Any], figure: bool) -> None:
    """Write the results beside the run; `key` says for which model and images they hold."""
    write_json(directory / FILE, {"format": FORMAT, "key": key, **results.to_dict()})
    # Replaced at once, so that a reader never finds half a table.
    replace_file(directory / "robustness.csv", as_csv(results).encode())
    if figure and results.cells and available():
        draw(results, PictureFiles(directory, endings=ENDINGS).of("robustness"))


def records(results: Robustness) -> list[dict[str, Any]]:
    """Return one flat record per corruption and severity, the clean images first."""
    clean = {"corruption": CLEAN, "family": "", "severity": 0, **results.clean}
    # A metric that clean images do not have would have no column.
    names = {*clean, *SOURCE}
    return [clean, *(_chosen(_record(cell), names) for cell in results.cells)]


def _chosen(record: Mapping[str, Value], names: Collection[str]) -> dict[str, Value]:
    """Return the fields with these names."""
    return {name: value for name, value in record.items() if name in names}


def as_csv(results: Robustness) -> str:
    """Return the records as CSV."""
    return csv_text([*PLACE, *results.clean, *SOURCE], records(results))


def headline(results: Robustness) -> str:
    """Return the result in a sentence: the mean at the highest severity beside the metric on clean images."""
    if not results.cells:
        return "no corruption could be measured"
    measure, severity = results.measure, results.severities[-1]
    model = f"{results.method} on {results.dataset} after round {results.round}, {results.examples:,} test images"
    mean = f"{show(results.mean(severity), measure)}{_unit(measure)}"
    clean = f"{show(results.clean_value, measure)}{_unit(measure)}"
    over = _mean_over(results, severity)
    return f"{model}: {measure} {mean} at severity {severity} ({over}), {clean} on clean images"


def _mean_over(results: Robustness, severity: int) -> str:
    """Say over how many corruptions the mean is, or over which one."""
    count = len(results.at(severity, corruptions()))
    if count == 1:
        return results.cells[0].corruption
    return f"mean over {count} corruptions"


def _unit(measure: str) -> str:
    if measure == LOSS:
        return ""
    return " %"


def show(value: float | None, measure: str) -> str:
    """Return a value of a metric as people read it."""
    if value is None:
        return NOTHING
    if measure == LOSS:
        return f"{value:.4f}"
    return f"{100 * value:.2f}"


def table(results: Robustness) -> Table:
    """Return the table for a terminal."""
    made = empty_table()
    made.add_column("corruption", no_wrap=True)
    for head in _severity_heads(results.severities):
        made.add_column(head, justify="right")
    made.add_column("images", no_wrap=True)
    _add_corruptions(made, results)
    clean = show(results.clean_value, results.measure)
    made.add_row(CLEAN, *[clean] * len(results.severities), "")
    _add_means(made, results)
    return made


def _severity_heads(severities: Sequence[int]) -> list[str]:
    if len(severities) == 1:
        return [f"severity {severities[0]}"]
    return [str(severity) for severity in severities]


def _add_corruptions(made: Table, results: Robustness) -> None:
    names = results.corruptions
    for name in names:
        values = [results.text(name, severity) for severity in results.severities]
        sources = ", ".join(sorted(results.sources(name)))
        made.add_row(name, *values, sources, end_section=ends_family(name, names))


def _add_means(made: Table, results: Robustness) -> None:
    names = results.corruptions
    for label, among in {**overall_mean(names), **standard_mean(names)}.items():
        means = [show(results.mean(severity, among), results.measure) for severity in results.severities]
        made.add_row(label, *means, "", style="bold")


def ends_family(name: str, names: Sequence[str]) -> bool:
    """Say whether a corruption is the last of its family in a table: a line is drawn below it."""
    return members(family_of(name), names)[-1] == name


def overall_mean(names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the label of the mean over these corruptions, and them."""
    return {f"mean ({len(names)} of {len(corruptions())})": names}


def standard_mean(names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the same for the benchmark's own corruptions; nothing where these are all or none."""
    standard = [name for name in names if name in STANDARD]
    # Where all are the benchmark's own, the mean over all is the same number.
    if not standard or len(standard) == len(names):
        return {}
    return {f"standard mean ({len(standard)} of {len(STANDARD)})": standard}


@in_style
def draw(results: Robustness, files: Sequence[Path]) -> None:
    """Draw a bar for each corruption at the highest severity and, with several, each family's mean over severities."""
    names = by_family(results.at(results.severities[-1], corruptions()))
    height = 0.9 + 0.16 * max(len(names), 8)
    if len(results.severities) == 1:
        figure = new_figure(COLUMN, height)
        _draw_bars(figure.subplots(), results, names)
    else:
        figure = new_figure(PAGE, height)
        left, right = figure.subplots(1, 2)
        _draw_bars(left, results, names)
        _draw_families(right, results)
    finish(figure, files, title=f"{results.method} on {results.dataset}, after round {results.round}")


def scale_of(measure: str) -> float:
    """Return what values are multiplied by in figures: shares are drawn in per cent."""
    if measure == LOSS:
        return 1.0
    return 100.0


def axis_name(measure: str) -> str:
    """Return a metric's name with its unit."""
    if measure == LOSS:
        return measure
    return f"{measure} (%)"


def _draw_bars(axes: Any, results: Robustness, names: Sequence[str]) -> None:
    severity, scale = results.severities[-1], scale_of(results.measure)
    values = [scale * value for value in results.at(severity, names).values()]
    colours = [COLOURS[FAMILIES.index(family_of(name))] for name in names]
    axes.barh(range(len(names)), values, color=colours, height=0.7)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    # Bars count upwards, and a list is read from the top.
    axes.invert_yaxis()
    _draw_limit(axes, results.clean_value, scale, "--", CLEAN)
    _draw_limit(axes, results.mean(severity), scale, ":", "mean")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes.set_xlabel(f"{axis_name(results.measure)}, severity {severity}")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_limit(axes: Any, value: float | None, scale: float, style: str, label: str) -> None:
    """Draw a line across all bars, where there is a value."""
    if value is not None:
        axes.axvline(scale * value, color="black", linewidth=1, linestyle=style, label=label)


def _draw_families(axes: Any, results: Robustness) -> None:
    for number, family in enumerate(FAMILIES):
        points = _family_means(results, family)
        if len(points) > 1:  # one point is that of the clean images, which all families share
            xs, ys = list(points), list(points.values())
            axes.plot(xs, ys, marker="o", markersize=4, color=COLOURS[number], label=family)
    axes.set_xticks([0, *results.severities], [CLEAN, *map(str, results.severities)])
    axes.set_xlabel("severity")
    axes.set_ylabel(f"{axis_name(results.measure)}, mean of the family")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)


def _family_means(results: Robustness, family: str) -> dict[int, float]:
    """Return a family's mean at each severity that it has, as it is drawn; clean images are severity 0."""
    names = members(family, corruptions())
    means = known_items({severity: results.mean(severity, names) for severity in results.severities})
    points = {0: results.clean_value, **means}
    return {severity: scale_of(results.measure) * value for severity, value in points.items()}
