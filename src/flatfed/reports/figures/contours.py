"""Contours of the loss over planes in weight space, one panel for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flatfed.core.errors import ConfigError
from flatfed.flatness.drawable import Floats, Grid
from flatfed.reports.figures.drawing.placing import CLEAR, Box, Tag, place_tags
from flatfed.reports.figures.drawing.scales import (
    add_panels,
    add_titles,
    columns_for,
    finite,
    is_wide,
    left_ones,
    lowest_ones,
    round_levels,
    rows_for,
)
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    INK,
    MEDIUM,
    PAGE,
    SMALL,
    finish,
    fold,
    in_style,
    named,
    new_figure,
    one_note,
    plain,
    require_some,
)

MAP = "cividis"
HEIGHTS = {1: 2.7, 2: 2.9, 3: 2.2}
"""Inches: the height of a row, by the number of panels in it."""
BESIDE = 1.2
"""Inches: what stands to the left and to the right of a frame."""
LOWEST = 1.2
"""Inches: the name of an upright axis is not broken into shorter lines."""
LOG_LEVELS_FROM = 10.0
"""From this ratio on, levels grow by factors: the ground around a minimum has to be seen as well."""


@in_style
def draw_contours(
    grids: Sequence[Grid],
    files: Sequence[Path],
    title: str = "",
    value: Literal["loss", "error"] = "loss",
    shared: bool = True,
) -> None:
    """Draw the loss, or the error in percent, over each plane, with the same levels and colours in all panels.

    Without `shared` each panel has its own. What is not finite stays blank. A model outside its plane is a hollow mark
    on the nearest edge.
    """
    require_some(grids)
    figure, panels = _panels(grids)
    planes = [_Plane(axes, grid, _heights(grid, value)) for axes, grid in zip(panels, grids, strict=True)]
    texts: list[list[Any]] = []
    for group in _groups(planes, shared):
        texts += _draw_group(figure, group, value)
    # Names find their places by pixels, which stand only when all panels are laid out.
    figure.draw_without_rendering()
    for plane, levels in zip(planes, texts, strict=True):
        _mark_models(plane.axes, plane.grid, levels)
    finish(figure, files, one_note(grids), title)


@dataclass(frozen=True)
class _Plane:
    """A panel, its grid, and the heights that are drawn there; what is not finite is masked."""

    axes: Any
    grid: Grid
    heights: Any


def _groups(planes: list[_Plane], shared: bool) -> list[list[_Plane]]:
    """Return the panels that share levels: all, or each by itself."""
    if shared:
        return [planes]
    return [[plane] for plane in planes]


def _draw_group(figure: Any, planes: Sequence[_Plane], value: str) -> list[list[Any]]:
    """Draw panels that share levels, and their colour bar; return the written levels of each."""
    heights = finite(plane.heights for plane in planes)
    # An error may be 0, for which a logarithmic scale has no place.
    log = value == "loss" and is_wide(heights, LOG_LEVELS_FROM)
    levels = round_levels(heights, log)
    texts = [_draw_panel(plane, levels) for plane in planes]
    _add_bar(figure, planes, levels, _value_name(value, log))
    return texts


def _value_name(value: str, log: bool) -> str:
    if value == "error":
        return "error (%)"
    return named(value, log)


def _add_bar(figure: Any, planes: Sequence[_Plane], levels: Floats, name: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm

    bar = figure.colorbar(
        ScalarMappable(BoundaryNorm(levels, 256), MAP), ax=[plane.axes for plane in planes], aspect=30
    )
    bar.set_label(name)
    # A low frame has no room for a number at each level.
    shown = levels[:: 2 if _flat([plane.grid for plane in planes]) < 0.75 else 1]
    bar.set_ticks(shown, labels=[plain(level) for level in shown])
    bar.outline.set_visible(False)


def _panels(grids: Sequence[Grid]) -> tuple[Any, list[Any]]:
    """Return a figure with a named panel for each plane; what all axes mean is said at the left and below only."""
    count = len(grids)
    columns = columns_for(count)
    width = COLUMN if count == 1 else PAGE
    figure = new_figure(width, rows_for(count, columns) * _flat(grids) * HEIGHTS[columns], "compressed")
    panels = add_panels(figure, count, columns)
    _name_axes(panels, grids, columns, width / columns - BESIDE)
    if count > 1:
        add_titles(panels, [grid.name for grid in grids], width / columns - 0.5)
    return figure, panels


def _name_axes(panels: Sequence[Any], grids: Sequence[Grid], columns: int, width: float) -> None:
    """Say what the axes are, once where they mean the same in all panels; in lines as long as the frame is."""
    alike = _are_alike(grids)
    left, lowest = left_ones(panels, columns), lowest_ones(panels, columns)
    for axes, grid in zip(panels, grids, strict=True):
        if axes in left or not alike:
            axes.set_ylabel(fold(grid.y_name, max(width * min(_tallness(grid), 1.0), LOWEST), MEDIUM))
        if axes in lowest or not alike:
            axes.set_xlabel(fold(grid.x_name, width, MEDIUM))


def _are_alike(grids: Sequence[Grid]) -> bool:
    """Say whether the axes mean the same in all panels."""
    return len({(grid.x_name, grid.y_name) for grid in grids}) == 1


def _flat(grids: Sequence[Grid]) -> float:
    """Return the share of a square panel's height that planes need where all are wider than high."""
    return float(np.clip(0.2 + 0.8 * max(map(_tallness, grids)), 0.6, 1.0))


def _tallness(grid: Grid) -> float:
    """Return the height of a plane as a share of its width."""
    return float(np.ptp(grid.ys) / max(np.ptp(grid.xs), 1e-12))


def _heights(grid: Grid, value: str) -> Floats:
    if value == "loss":
        return np.ma.masked_invalid(grid.losses)
    if grid.errors is None:
        raise ConfigError(f"{grid.label}: there are no classes, so there is no error to draw")
    return np.ma.masked_invalid(100.0 * grid.errors)


def _draw_panel(plane: _Plane, levels: Floats) -> list[Any]:
    """Draw bands, lines between them and their levels; return the written levels."""
    from matplotlib.colors import BoundaryNorm

    axes, grid, heights = plane.axes, plane.grid, plane.heights
    _dress(axes, grid)
    if not heights.count():
        return []
    axes.contourf(grid.xs, grid.ys, heights, levels=levels, cmap=MAP, norm=BoundaryNorm(levels, 256))
    return _draw_lines(plane, levels)


def _draw_lines(plane: _Plane, levels: Floats) -> list[Any]:
    """Draw the lines of levels that are crossed, and write these; return what is written."""
    axes, grid, heights = plane.axes, plane.grid, plane.heights
    # Matplotlib warns where no level is crossed.
    crossed = levels[(levels > heights.min()) & (levels < heights.max())]
    if not crossed.size:
        return []
    colours = [_line_colour(level, levels) for level in crossed]
    lines = axes.contour(grid.xs, grid.ys, heights, levels=crossed, colors=colours, linewidths=0.5)
    return list(axes.clabel(lines, fontsize=SMALL, fmt=plain, inline_spacing=2))


def _dress(axes: Any, grid: Grid) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.spines[["top", "right"]].set_visible(True)
    axes.set(xlim=(grid.xs.min(), grid.xs.max()), ylim=(grid.ys.min(), grid.ys.max()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    # One scale for both directions, unless the panel would become a strip.
    if 1 / 3 < np.ptp(grid.xs) / max(np.ptp(grid.ys), 1e-12) < 3:
        axes.set_aspect("equal")


def _line_colour(level: float, levels: Floats) -> str:
    """Return a colour that is seen on the map: its lower half is dark."""
    if level < levels[len(levels) // 2]:
        return "white"
    return INK


def _mark_models(axes: Any, grid: Grid, texts: Sequence[Any]) -> None:
    """Put a mark at each model, take away written levels that it would cover or that stick out, and write the names."""
    tags = [_mark(axes, name, x, y) for name, (x, y) in grid.marks.items()]
    spots = [axes.transData.transform((tag.x, tag.y)) for tag in tags]
    place_tags(axes, tags, _uncovered(axes, texts, spots))


def _mark(axes: Any, name: str, x: float, y: float) -> Tag:
    """Put a mark at a model; a hollow one on the nearest edge for a model outside."""
    inner = float(np.clip(x, *axes.get_xlim())), float(np.clip(y, *axes.get_ylim()))
    face, text = "white", name
    if inner != (x, y):
        face, text = "none", f"{name} (outside)"
    edge = {"markeredgecolor": INK, "markeredgewidth": 1}
    # Not clipped, because a mark on the edge lies half outside.
    axes.plot(*inner, "o", markersize=5, color=face, clip_on=False, zorder=5, **edge)
    return Tag(text, *inner)


def _uncovered(axes: Any, texts: Sequence[Any], spots: Sequence[Any]) -> list[Box]:
    """Take away written levels that lie on a spot or leave the frame; return the boxes of the others."""
    renderer = axes.figure.canvas.get_renderer()
    boxes: list[Box] = []
    for text in texts:
        box = text.get_window_extent(renderer)
        if _covers(box.padded(CLEAR * axes.figure.dpi / 72), spots) or not _holds(axes.bbox, box):
            text.remove()
        else:
            boxes.append(tuple(box.extents))
    return boxes


def _holds(frame: Any, box: Any) -> bool:
    """Say whether a text lies inside the frame, all of it."""
    return bool(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)


def _covers(box: Any, spots: Sequence[Any]) -> bool:
    return any(box.contains(*spot) for spot in spots)
