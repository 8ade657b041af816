"""Differences of methods to a reference with their intervals, setting by setting: a forest plot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.reports.figures.drawing.style import (
    COLUMN,
    GREY,
    INK,
    MEDIUM,
    SMALL,
    colour,
    finish,
    fold,
    in_style,
    new_figure,
    require_some,
)

LINE, FURTHER = 0.17, 0.11
"""Inches of a row, and of each further line of its name."""
REST = 0.55
"""Inches of a panel that are not rows: the axis and its name."""
NAMES = 1.3
"""Inches that names of methods may take before they are broken."""


@dataclass(frozen=True)
class ForestRow:
    """One method in one setting.

    Attributes:
        setting: rows of one setting stand together under its name; without a name there is no heading.
        label: the method.
        difference: its mean difference to the reference, in the unit of the axis.
        low: the lower end of the interval; None where there is no interval.
        high: its upper end.
        is_significant: drawn full; others are hollow.
        x_name: of the axis; rows with another name have a panel of their own.
    """

    setting: str
    label: str
    difference: float
    low: float | None
    high: float | None
    is_significant: bool
    x_name: str


@in_style
def draw_forest(rows: Sequence[ForestRow], files: Sequence[Path], note: str = "", title: str = "") -> None:
    """Draw each method's difference to the reference, which is the line at 0, with its interval.

    A full mark is a significant difference, a hollow one is not. Each method has its colour in all settings.
    """
    require_some(rows)
    panels = _by_axis(rows)
    heights = [sum(map(_height, _lines(own))) + REST for own in panels.values()]
    figure = new_figure(COLUMN, sum(heights))
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights).ravel()
    colours = {label: colour(place) for place, label in enumerate(dict.fromkeys(row.label for row in rows))}
    for panel, (x_name, own) in zip(axes, panels.items(), strict=True):
        _draw_panel(panel, x_name, own, colours)
    finish(figure, files, note, title, _keys(rows))


def _by_axis(rows: Sequence[ForestRow]) -> dict[str, list[ForestRow]]:
    panels: dict[str, list[ForestRow]] = {}
    for row in rows:
        panels.setdefault(row.x_name, []).append(row)
    return panels


Lines = list[str | ForestRow]
"""From top to bottom: names of settings, and rows."""


def _lines(rows: Sequence[ForestRow]) -> Lines:
    lines: Lines = []
    for setting in dict.fromkeys(row.setting for row in rows):
        if setting:
            lines.append(setting)
        lines += [row for row in rows if row.setting == setting]
    return lines


def _height(line: str | ForestRow) -> float:
    """Return the inches of a line, whose name may be broken."""
    return LINE + FURTHER * _name(line).count("\n")


def _draw_panel(axes: Any, x_name: str, rows: Sequence[ForestRow], colours: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    lines = _lines(rows)
    ends = list(itertools.accumulate(map(_height, lines)))
    places = [end - _height(line) / 2 for end, line in zip(ends, lines, strict=True)]
    axes.axvline(0, color=GREY, linewidth=0.8)
    for place, line in zip(places, lines, strict=True):
        if isinstance(line, ForestRow):
            _draw_row(axes, place, line, colours[line.label])
    _name_lines(axes, places, lines)
    axes.set_ylim(ends[-1] + LINE / 4, 0)
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.set_xlabel(fold(x_name, COLUMN - NAMES, MEDIUM))


def _draw_row(axes: Any, place: float, row: ForestRow, shade: str) -> None:
    if row.low is not None and row.high is not None:
        axes.plot([row.low, row.high], [place, place], color=shade, linewidth=1.3, solid_capstyle="butt")
    face = shade if row.is_significant else "white"
    axes.plot(row.difference, place, "o", markersize=4.5, color=face, markeredgecolor=shade, zorder=4)


def _name_lines(axes: Any, places: Sequence[float], lines: Lines) -> None:
    """Write the names to the left: settings in bold, methods below them."""
    axes.set_yticks(places, [_name(line) for line in lines])
    axes.tick_params(axis="y", length=0)
    for text, line in zip(axes.get_yticklabels(), lines, strict=True):
        text.set_fontsize(SMALL)
        if isinstance(line, str):
            text.set_fontweight("bold")


def _name(line: str | ForestRow) -> str:
    """Return the name of a line, broken where it is long; bold letters are wider."""
    if isinstance(line, str):
        return fold(line, NAMES, 1.1 * SMALL)
    return fold(line.label, NAMES, SMALL)


def _keys(rows: Sequence[ForestRow]) -> list[tuple[Any, str]]:
    """Return the legend of full and hollow marks, as far as there are some."""
    from matplotlib.lines import Line2D

    words = {True: "significant", False: "not significant"}
    kinds = [kind for kind in words if any(row.is_significant == kind for row in rows)]
    keys = []
    for kind in kinds:
        face = INK if kind else "white"
        mark = Line2D([], [], linestyle="", marker="o", markersize=4.5, color=face, markeredgecolor=INK)
        keys.append((mark, words[kind]))
    return keys
