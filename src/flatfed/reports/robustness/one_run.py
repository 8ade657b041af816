"""Accuracy under corruptions: the table, the files beside the run, and the figure."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import ConfigError
from flatfed.data.corruptions import STANDARD, corruptions
from flatfed.reports.curves import COLOURS, available
from flatfed.runs.files import replace_file, write_json

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = 1
FILE = "robustness.json"
FAMILIES = ("noise", "blur", "weather", "digital")
LOSS = "loss"


@dataclass(frozen=True)
class Cell:
    """The figures of a model under one corruption at one severity, on published or on generated images."""

    corruption: str
    severity: int
    source: str
    figures: dict[str, float]


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
    cells: list[Cell] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """The figure that counts: accuracy, else what the task measures, else the loss."""
        names = [name for name in self.clean if name != LOSS]
        return "accuracy" if "accuracy" in names else names[0] if names else LOSS

    @property
    def severities(self) -> list[int]:
        """The severities that were measured."""
        return sorted({cell.severity for cell in self.cells})

    def value(self, name: str, severity: int) -> float | None:
        """Return the figure that counts under a corruption."""
        found = [c for c in self.cells if c.corruption == name and c.severity == severity]
        return found[0].figures.get(self.measure) if found else None

    def mean(self, severity: int, among: Iterable[str] | None = None) -> float | None:
        """Return the mean over corruptions at a severity."""
        names = corruptions() if among is None else among
        values = [value for name in names if (value := self.value(name, severity)) is not None]
        return statistics.fmean(values) if values else None

    def only(self, names: Sequence[str], severities: Sequence[int]) -> Robustness:
        """Return the part that was asked for."""
        cells = [c for c in self.cells if c.corruption in names and c.severity in severities]
        return replace(self, cells=cells, skipped={name: why for name, why in self.skipped.items() if name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "method": self.method,
            "round": self.round,
            "dataset": self.dataset,
            "examples": self.examples,
            "clean": self.clean,
            "mean": {str(s): self.mean(s) for s in self.severities},
            "mean_standard": {str(s): self.mean(s, STANDARD) for s in self.severities},
            "cells": [_record(cell) for cell in self.cells],
            "skipped": self.skipped,
        }


def _record(cell: Cell) -> dict[str, Any]:
    about = corruptions()[cell.corruption]
    honest = cell.source == "published" or about.faithful
    place = {"corruption": cell.corruption, "family": about.family, "severity": cell.severity}
    return place | cell.figures | {"source": cell.source, "faithful": honest}


def from_dict(data: dict[str, Any]) -> Robustness:
    """Undo `to_dict`."""
    named = ("corruption", "family", "severity", "source", "faithful")
    cells = [
        Cell(r["corruption"], r["severity"], r["source"], {k: v for k, v in r.items() if k not in named})
        for r in data["cells"]
    ]
    names = ("method", "round", "dataset", "examples", "clean", "skipped")
    return Robustness(cells=cells, **{name: data[name] for name in names})


def write(found: Robustness, directory: Path, key: dict[str, Any], figure: bool) -> None:
    """Write the results beside the run; `key` says for which model and images they hold."""
    write_json(directory / FILE, {"format": FORMAT, "key": key, **found.to_dict()})
    replace_file(directory / "robustness.csv", as_csv(found).encode())
    if figure and found.cells and available():
        draw(found, directory / "robustness.png")


def records(found: Robustness) -> list[dict[str, Any]]:
    """Return one flat record per corruption and severity, the clean images first."""
    clean = {"corruption": "clean", "family": "", "severity": 0, **found.clean}
    names = {*clean, "source", "faithful"}
    return [clean, *({n: v for n, v in _record(cell).items() if n in names} for cell in found.cells)]


def as_csv(found: Robustness) -> str:
    """Return the records as CSV."""
    text = io.StringIO()
    columns = ["corruption", "family", "severity", *found.clean, "source", "faithful"]
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(found))
    return text.getvalue()


def headline(found: Robustness) -> str:
    """Return the result in a sentence: the mean at the highest severity beside the figure on clean images."""
    if not found.cells:
        return "no corruption could be measured"
    severity = found.severities[-1]
    count = sum(found.value(name, severity) is not None for name in corruptions())
    over = f"mean over {count} corruptions" if count != 1 else next(c.corruption for c in found.cells)
    number, clean = show(found.mean(severity), found.measure), show(found.clean[found.measure], found.measure)
    model = f"{found.method} on {found.dataset} after round {found.round}, {found.examples:,} test images"
    unit = "" if found.measure == LOSS else " %"
    return f"{model}: {found.measure} {number}{unit} at severity {severity} ({over}), {clean}{unit} on clean images"


def show(value: float | None, measure: str) -> str:
    """Return a figure as people read it."""
    if value is None:
        return "–"
    return f"{value:.4f}" if measure == LOSS else f"{100 * value:.2f}"


def table(found: Robustness) -> Table:
    """Return the table for a terminal."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    made.add_column("corruption", no_wrap=True)
    for severity in found.severities:
        made.add_column(f"severity {severity}" if len(found.severities) == 1 else str(severity), justify="right")
    made.add_column("images", no_wrap=True)
    shown = [name for name in corruptions() if any(c.corruption == name for c in found.cells)]
    for family in FAMILIES:
        members = [name for name in shown if corruptions()[name].family == family]
        for name in members:
            sources = {c.source for c in found.cells if c.corruption == name}
            made.add_row(name, *_line(found, name), ", ".join(sorted(sources)), end_section=name == members[-1])
    made.add_row("clean", *([show(found.clean[found.measure], found.measure)] * len(found.severities)), "")
    means = {f"mean ({len(shown)} of {len(corruptions())})": shown}
    standard = [name for name in shown if name in STANDARD]
    if 0 < len(standard) < len(shown):
        means[f"standard mean ({len(standard)} of {len(STANDARD)})"] = standard
    for label, among in means.items():
        values = [show(found.mean(severity, among), found.measure) for severity in found.severities]
        made.add_row(label, *values, "", style="bold")
    return made


def _line(found: Robustness, name: str) -> list[str]:
    return [show(found.value(name, severity), found.measure) for severity in found.severities]


def draw(found: Robustness, file: Path) -> None:
    """Draw a bar for each corruption at the highest severity and, with several, each family's mean over severities."""
    if not available():
        raise ConfigError("figures need matplotlib; pip install 'flatfed[plots]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    several = len(found.severities) > 1
    shown = [name for name in corruptions() if found.value(name, found.severities[-1]) is not None]
    figure = Figure(figsize=(9.0 if several else 5.0, 1.3 + 0.22 * max(len(shown), 8)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2 if several else 1, squeeze=False)[0]
    _bars(panels[0], found, shown)
    if several:
        _families(panels[1], found)
    figure.suptitle(f"{found.method} on {found.dataset}, after round {found.round}", fontsize=10)
    figure.savefig(file, dpi=160)


def _scale(found: Robustness) -> float:
    return 1.0 if found.measure == LOSS else 100.0


def _label(found: Robustness) -> str:
    return found.measure if found.measure == LOSS else f"{found.measure} (%)"


def _bars(axes: Any, found: Robustness, shown: list[str]) -> None:
    severity, scale = found.severities[-1], _scale(found)
    ordered = sorted(shown, key=lambda name: FAMILIES.index(corruptions()[name].family))
    values = [scale * (found.value(name, severity) or 0.0) for name in ordered]
    colours = [COLOURS[FAMILIES.index(corruptions()[name].family)] for name in ordered]
    axes.barh(range(len(ordered)), values, color=colours, height=0.7)
    axes.set_yticks(range(len(ordered)), [name.replace("_", " ") for name in ordered], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(scale * found.clean[found.measure], color="black", linewidth=1, linestyle="--", label="clean")
    mean = found.mean(severity)
    if mean is not None:
        axes.axvline(scale * mean, color="black", linewidth=1, linestyle=":", label="mean")
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes.set_xlabel(f"{_label(found)}, severity {severity}")
    axes.spines[["top", "right"]].set_visible(False)


def _families(axes: Any, found: Robustness) -> None:
    scale, severities = _scale(found), [0, *found.severities]
    for number, family in enumerate(FAMILIES):
        members = [name for name, about in corruptions().items() if about.family == family]
        means = [found.clean[found.measure], *(found.mean(severity, members) for severity in found.severities)]
        points = [(s, scale * value) for s, value in zip(severities, means, strict=True) if value is not None]
        if len(points) > 1:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, color=COLOURS[number], label=family)
    axes.set_xticks(severities, ["clean", *map(str, found.severities)])
    axes.set_xlabel("severity")
    axes.set_ylabel(f"{_label(found)}, mean of the family")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
