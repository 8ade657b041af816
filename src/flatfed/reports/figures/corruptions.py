"""Accuracy under each corruption, a bar for every method; over severities, a line for every method."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flatfed.reports.curves import COLOURS
from flatfed.reports.figures.drawing.style import COLUMN, INK, PAGE, finish, in_style, look, new_figure, require_some

Bars = list[dict[str, list[float]]]
"""Sections of names, each with a value for every seed; none where there is no value."""

BAR, GAP, LEAST = 0.075, 0.11, 0.2
"""Inches: a bar's height, the gap between two groups of bars, and the least height of both."""
FEW = 8
"""So many groups stand in one panel."""
TREND = 2.0
"""Inches: the height of the lines over severities."""
HATCHES = ("", "////", "....")


@in_style
def draw_corruptions(
    values: Mapping[str, Bars],
    files: Sequence[Path],
    x_name: str,
    title: str = "",
    trends: Mapping[str, Mapping[str, list[float]]] | None = None,
) -> None:
    """Draw the values of every label as grouped bars, all on one scale; a thin line is the range over seeds.

    Args:
        values: for each label the same sections of the same names.
        files: what to write; the ending decides the format.
        x_name: what the bars measure.
        title: what stands above.
        trends: for each label the values at places that follow one another, such as severities; drawn below.
    """
    require_some(list(values))
    sections = [list(section) for section in next(iter(values.values()))]
    panels = _divided(sections)
    step = max(LEAST, BAR * len(values) + GAP)
    rows = max(_rows(panel) for panel in panels)
    body = step * rows + 0.45
    wide = PAGE if len(panels) > 1 or trends else COLUMN
    figure = new_figure(wide, body + (TREND if trends else 0))
    grid = figure.add_gridspec(2 if trends else 1, len(panels), height_ratios=[body, TREND] if trends else [1])
    first = None
    for column, panel in enumerate(panels):
        first = axes = figure.add_subplot(grid[0, column], sharex=first)
        _draw_bars(axes, panel, values, step)
        axes.set_ylim(rows - 0.4, -0.6)  # a bar is as high in one panel as in the other
        axes.set_xlabel(x_name)
    if trends:
        _draw_trends(figure.add_subplot(grid[1, :]), trends, x_name.partition(",")[0])
    several = any(len(of) > 1 for bars in values.values() for section in bars for of in section.values())
    note = "means over seeds, with the range over seeds" if several else ""
    finish(figure, files, note, title, [_key(index, label) for index, label in enumerate(values)])


def _rows(panel: Sequence[Sequence[str]]) -> float:
    """Return the groups of a panel, with half a group between sections."""
    return sum(map(len, panel)) + 0.5 * (len(panel) - 1)


def _divided(sections: list[list[str]]) -> list[list[list[str]]]:
    """Return one panel where there are few groups, else two of about equal height, divided between sections."""
    if sum(map(len, sections)) <= FEW:
        return [sections]
    places = range(1, len(sections))
    best = min(places, key=lambda at: max(_rows(sections[:at]), _rows(sections[at:])))
    return [sections[:best], sections[best:]]


def _draw_bars(axes: Any, panel: Sequence[Sequence[str]], values: Mapping[str, Bars], step: float) -> None:
    places, at = dict[str, float](), 0.0
    for section in panel:
        for name in section:
            places[name] = at
            at += 1
        at += 0.5
    height = min(BAR / step, 0.8 / len(values)) if len(values) > 1 else 0.6
    for index, bars in enumerate(values.values()):
        known = {name: of for section in bars for name, of in section.items() if name in places and of}
        shift = (index - (len(values) - 1) / 2) * height
        ys, means = [places[name] + shift for name in known], [statistics.fmean(of) for of in known.values()]
        axes.barh(ys, means, height=0.92 * height, color=_colour(index), hatch=_hatch(index), edgecolor="white", lw=0)
        spans = [(y, min(of), max(of)) for y, of in zip(ys, known.values(), strict=True) if len(of) > 1]
        if spans:
            axes.hlines(*zip(*spans, strict=True), color=INK, linewidth=0.7)
    axes.set_yticks(list(places.values()), list(places))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _draw_trends(axes: Any, trends: Mapping[str, Mapping[str, list[float]]], y_name: str) -> None:
    names = list(next(iter(trends.values())))
    for index, points in enumerate(trends.values()):
        known = [(place, of) for place, name in enumerate(names) if (of := points.get(name))]
        xs = [place for place, _ in known]
        axes.plot(xs, [statistics.fmean(of) for _, of in known], marker="o", markersize=3.5, **look(index))
        if any(len(of) > 1 for _, of in known):
            low, high = [min(of) for _, of in known], [max(of) for _, of in known]
            axes.fill_between(xs, low, high, color=_colour(index), alpha=0.15, linewidth=0)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("severity")
    axes.set_ylabel(f"{y_name}, mean")
    axes.grid(axis="y")


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _hatch(index: int) -> str:
    return HATCHES[index // len(COLOURS) % len(HATCHES)]


def _key(index: int, label: str) -> tuple[Any, str]:
    from matplotlib.patches import Patch

    return Patch(facecolor=_colour(index), hatch=_hatch(index), edgecolor="white", linewidth=0), label
