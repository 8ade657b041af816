"""One number against another, such as accuracy against sharpness: a mark for each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats
from flatfed.reports.figures.drawing.placing import Box, Tag, padded, place_tags
from flatfed.reports.figures.drawing.scales import finite, fit_scale, is_wide
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    GREY,
    MEDIUM,
    SMALL,
    colour,
    finish,
    fold,
    in_style,
    named,
    new_figure,
)

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
    groups = _groups(points)
    xs = finite(group[:, 0] for group in groups.values())
    log = is_wide(xs)
    figure = new_figure(COLUMN, 2.6)
    axes = figure.subplots()
    fit_scale(axes.xaxis, xs)
    _dress(axes, named(x_name, log), y_name)
    tags = [_draw_group(axes, index, label, group, log) for index, (label, group) in enumerate(groups.items())]
    # Names find their places by pixels, which stand only when the axes are laid out.
    figure.draw_without_rendering()
    if len(tags) > NAMED:
        finish(figure, files, "", title, [_key(index, label) for index, label in enumerate(groups)])
        return
    place_tags(axes, tags, _boxes(axes, groups.values()))
    finish(figure, files, "", title)


def _groups(points: Sequence[tuple[str, float, float]]) -> dict[str, Floats]:
    """Return the runs of each label, runs x (x, y), without those that are not finite."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for label, x, y in points:
        if np.isfinite([x, y]).all():
            groups.setdefault(label, []).append((x, y))
    return {label: np.array(group) for label, group in groups.items()}


def _boxes(axes: Any, groups: Iterable[Floats]) -> list[Box]:
    """Return the pixels around all runs."""
    spots = [spot for group in groups for spot in axes.transData.transform(group)]
    return [padded((x, y, x, y), DOT) for x, y in spots]


def _dress(axes: Any, x_name: str, y_name: str) -> None:
    axes.set_xlabel(fold(x_name, COLUMN - 0.4, MEDIUM))
    axes.set_ylabel(y_name)
    axes.grid()
    axes.margins(0.14)
    axes.annotate("← flatter", (0, 1), (0, 3), "axes fraction", "offset points", fontsize=SMALL, color=GREY)


def _draw_group(axes: Any, index: int, label: str, group: Floats, log: bool) -> Tag:
    """Draw the runs and the mean of a label, which on a logarithmic axis is that of the logarithms."""
    shade, marker = colour(index), _marker(index)
    x = _mean(group[:, 0], log)
    y = _mean(group[:, 1], log=False)
    if len(group) > 1:
        axes.scatter(*group.T, s=10, marker=marker, color=shade, alpha=0.45, linewidths=0)
    axes.scatter(x, y, s=36, marker=marker, color=shade, edgecolors="white", linewidths=0.6, zorder=4)
    return Tag(fold(label, WIDEST), x, y, shade)


def _mean(values: Floats, log: bool) -> float:
    if log:
        return float(np.exp(np.log(values).mean()))
    return float(values.mean())


def _marker(index: int) -> str:
    """Return a marker that with the colour is the label's own."""
    # There are as many markers as colours: without the shift the pairs would repeat after eight labels.
    return MARKERS[(index + index // len(MARKERS)) % len(MARKERS)]


def _key(index: int, label: str) -> tuple[Any, str]:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", marker=_marker(index), markersize=5, color=colour(index)), label
