"""Contours of the loss over planes in weight space, one panel for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flatfed.core.errors import ConfigError
from flatfed.flatness.results import Floats, Grid
from flatfed.reports.figures.drawing.placing import CLEAR, Box, Tag, place_tags
from flatfed.reports.figures.drawing.scales import finite, is_wide, round_levels
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    INK,
    MEDIUM,
    PAGE,
    SMALL,
    finish,
    in_style,
    new_figure,
    require_some,
)
from flatfed.reports.figures.drawing.words import fold, named, one_note, plain

MAP = "cividis"
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
    drawn = list(zip(panels, grids, (_heights(grid, value) for grid in grids), strict=True))
    shown: list[list[Any]] = []
    for group in [drawn] if shared else [[one] for one in drawn]:
        found = finite(heights for _, _, heights in group)
        log = value == "loss" and is_wide(found, LOG_LEVELS_FROM)
        levels = round_levels(found, log)
        shown += [_draw_panel(axes, grid, heights, levels) for axes, grid, heights in group]
        _add_bar(figure, [axes for axes, _, _ in group], levels, named("loss", log) if value == "loss" else "error (%)")
    figure.draw_without_rendering()
    for axes, grid, texts in zip(panels, grids, shown, strict=True):
        _mark_models(axes, grid, texts)
    finish(figure, files, one_note(grids), title)


def _add_bar(figure: Any, panels: list[Any], levels: Floats, name: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm

    bar = figure.colorbar(ScalarMappable(BoundaryNorm(levels, 256), MAP), ax=panels, aspect=30)
    bar.set_label(name)
    bar.set_ticks(levels, labels=[plain(level) for level in levels])
    bar.outline.set_visible(False)


def _panels(grids: Sequence[Grid]) -> tuple[Any, list[Any]]:
    """Return a figure with a named panel for each plane; what all axes mean is said at the left and below only."""
    columns = {1: 1, 2: 2, 4: 2}.get(len(grids), 3)
    rows = -(-len(grids) // columns)
    width = COLUMN if len(grids) == 1 else PAGE
    figure = new_figure(width, rows * _flat(grids) * {1: 2.7, 2: 2.9, 3: 2.2}[columns], "compressed")
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    alike = len({(grid.x_name, grid.y_name) for grid in grids}) == 1
    for index, (axes, grid) in enumerate(zip(panels, grids, strict=False)):
        if not alike or index % columns == 0:
            axes.set_ylabel(grid.y_name)
        if not alike or index + columns >= len(grids):
            axes.set_xlabel(grid.x_name)
        if len(grids) > 1:
            axes.set_title(fold(grid.name, width / columns - 0.5, MEDIUM))
    for axes in panels[len(grids) :]:
        axes.set_axis_off()
    return figure, panels[: len(grids)]


def _flat(grids: Sequence[Grid]) -> float:
    """Return the share of a square panel's height that planes need where all are wider than high."""
    highest = max(np.ptp(grid.ys) / max(np.ptp(grid.xs), 1e-12) for grid in grids)
    return float(np.clip(0.2 + 0.8 * highest, 0.6, 1.0))


def _heights(grid: Grid, value: str) -> Floats:
    if value == "loss":
        return np.ma.masked_invalid(grid.losses)
    if grid.errors is None:
        raise ConfigError(f"{grid.label}: there are no classes, so there is no error to draw")
    return np.ma.masked_invalid(100.0 * grid.errors)


def _draw_panel(axes: Any, grid: Grid, heights: Any, levels: Floats) -> list[Any]:
    """Draw bands, lines between them and their levels; return the written levels."""
    from matplotlib.colors import BoundaryNorm
    from matplotlib.ticker import MaxNLocator

    texts: list[Any] = []
    axes.spines[["top", "right"]].set_visible(True)
    axes.set(xlim=(grid.xs.min(), grid.xs.max()), ylim=(grid.ys.min(), grid.ys.max()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    if 1 / 3 < np.ptp(grid.xs) / max(np.ptp(grid.ys), 1e-12) < 3:
        axes.set_aspect("equal")
    if not heights.count():
        return texts
    axes.contourf(grid.xs, grid.ys, heights, levels=levels, cmap=MAP, norm=BoundaryNorm(levels, 256))
    crossed = [level for level in levels if heights.min() < level < heights.max()]
    if crossed:
        middle = levels[len(levels) // 2]
        colours = ["white" if level < middle else INK for level in crossed]
        lines = axes.contour(grid.xs, grid.ys, heights, levels=crossed, colors=colours, linewidths=0.5)
        texts = list(axes.clabel(lines, fontsize=SMALL, fmt=plain, inline_spacing=2))
    return texts


def _mark_models(axes: Any, grid: Grid, texts: Sequence[Any]) -> None:
    """Put a mark at each model, take away written levels that it would cover, and write the names."""
    tags = []
    for name, (x, y) in grid.marks.items():
        inner = float(np.clip(x, *axes.get_xlim())), float(np.clip(y, *axes.get_ylim()))
        outside = inner != (x, y)
        face = "none" if outside else "white"
        axes.plot(
            *inner, "o", markersize=5, color=face, markeredgecolor=INK, markeredgewidth=1, clip_on=False, zorder=5
        )
        tags.append(Tag(f"{name} (outside)" if outside else name, *inner))
    spots = [axes.transData.transform((tag.x, tag.y)) for tag in tags]
    renderer = axes.figure.canvas.get_renderer()
    boxes: list[Box] = []
    for text in texts:
        box = text.get_window_extent(renderer)
        if any(box.padded(CLEAR * axes.figure.dpi / 72).contains(*spot) for spot in spots):
            text.remove()
        else:
            boxes.append(tuple(box.extents))
    place_tags(axes, tags, boxes)
