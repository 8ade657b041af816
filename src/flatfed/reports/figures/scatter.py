"""One number against another, such as accuracy against sharpness: a mark for each run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats
from flatfed.reports.figures.drawing.placing import Tag, place_tags
from flatfed.reports.figures.drawing.scales import is_wide, make_log
from flatfed.reports.figures.drawing.style import COLUMN, GREY, MEDIUM, SMALL, finish, in_style, look, new_figure
from flatfed.reports.figures.drawing.words import fold, named

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
NAMED = 12
"""Labels that are written beside their marks, at most; more go into a legend."""
DOT = 3.0
"""Pixels around a run that names keep off."""
WIDEST = 1.5
"""Inches: where names beside marks are broken."""


@in_style
def draw_scatter(
    points: Sequence[tuple[str, float, float]], files: Sequence[Path], x_name: str, y_name: str, title: str = ""
) -> None:
    """Draw `(label, x, y)` of each run, and the mean of those with the same label as a larger mark.

    To the left is flatter, and the figure says so. The x axis is logarithmic where it spans more than two decades.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for label, x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            groups.setdefault(label, []).append((x, y))
    runs = {label: np.array(group) for label, group in groups.items()}
    xs = np.concatenate([group[:, 0] for group in runs.values()]) if runs else np.empty(0)
    log = is_wide(xs)
    figure = new_figure(COLUMN, 2.6)
    axes = figure.subplots()
    if log:
        make_log(axes.xaxis, xs.max() / xs.min())
    _dress(axes, named(x_name, log), y_name)
    tags = [_draw_group(axes, index, label, group, log) for index, (label, group) in enumerate(runs.items())]
    figure.draw_without_rendering()
    keys = []
    if len(tags) <= NAMED:
        spots = [spot for group in runs.values() for spot in axes.transData.transform(group)]
        place_tags(axes, tags, [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in spots])
    else:
        keys = [_key(index, label) for index, label in enumerate(runs)]
    finish(figure, files, "", title, keys)


def _dress(axes: Any, x_name: str, y_name: str) -> None:
    axes.set_xlabel(fold(x_name, COLUMN - 0.4, MEDIUM))
    axes.set_ylabel(y_name)
    axes.grid()
    axes.margins(0.14)
    axes.annotate("← flatter", (0, 1), (0, 3), "axes fraction", "offset points", fontsize=SMALL, color=GREY)


def _draw_group(axes: Any, index: int, label: str, group: Floats, log: bool) -> Tag:
    """Draw the runs and the mean of a label, which on a logarithmic axis is that of the logarithms."""
    colour, marker = look(index)["color"], _marker(index)
    x = float(np.exp(np.log(group[:, 0]).mean()) if log else group[:, 0].mean())
    y = float(group[:, 1].mean())
    if len(group) > 1:
        axes.scatter(*group.T, s=10, marker=marker, color=colour, alpha=0.45, linewidths=0)
    axes.scatter(x, y, s=36, marker=marker, color=colour, edgecolors="white", linewidths=0.6, zorder=4)
    return Tag(fold(label, WIDEST), x, y, colour)


def _marker(index: int) -> str:
    """Return a marker that with the colour is the label's own."""
    return MARKERS[(index + index // len(MARKERS)) % len(MARKERS)]


def _key(index: int, label: str) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=_marker(index), markersize=5, color=look(index)["color"]), label
