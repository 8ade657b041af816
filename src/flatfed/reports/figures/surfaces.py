"""Loss surfaces of one or more models on one set of axes, and the pieces that they are made of."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats, Grid
from flatfed.reports.figures.drawing.scales import LOG_FROM, finite, is_wide, span, with_gaps
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    GREY,
    MEDIUM,
    PAGE,
    PALE,
    colour,
    finish,
    fold,
    in_style,
    named,
    new_figure,
    one_note,
    plain,
    require_some,
    short,
    together,
)
from flatfed.reports.figures.drawing.style import colour as colour_of

FINE = 48
"""Faces along each side of a surface, about: coarser grids are divided, so that surfaces that cross hide each other."""
MESH = 24
"""Lines of a mesh along each side, at most."""
LIGHT = np.array([-0.45, -0.35, 0.82])
UP, ROUND = 32, -58
"""Degrees: where the viewer stands."""
GLASS = 0.14
"""Opacity of the faces of a mesh."""
HIDDEN = 0.45
"""Opacity of the lines of a mesh where a surface hides them."""
PALER = 0.55
"""How much of its colour a solid surface keeps: lines of a mesh are to be seen on it."""


def pieces_of(index: int, grid: Grid, log: bool, heights: tuple[float, float]) -> tuple[Floats, Floats, Floats]:
    """Return the corners of all pieces of a surface, the colours of their faces, and those of their edges."""
    from matplotlib.colors import to_rgba

    places = _corners(grid, log)
    colour = np.array(to_rgba(colour_of(index)))
    quads = _quads(places)
    if is_solid(index):  # edges in the colour of the faces close the seams
        shades = _shade(quads, np.array(to_rgba(paler(index))), heights[1] - heights[0])
        return quads, shades, shades
    shades = _shade(quads, colour, heights[1] - heights[0])
    shades[:, 3] = GLASS
    lines = _mesh(places, grid.losses.shape)
    faces = np.concatenate([shades, np.zeros((len(lines), 4))])
    # Faces have no edges here, because the lines of a mesh are pieces of their own.
    edges = np.concatenate([np.zeros_like(shades), np.tile(colour, (len(lines), 1))])
    return np.concatenate([quads, lines]), faces, edges


def is_solid(index: int) -> bool:
    """Say whether the surface with this number is solid: the first, and then every other."""
    return index % 2 == 0


def paler(index: int) -> str:
    """Return the colour of the faces of a solid surface."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (1 - PALER * (1 - part) for part in to_rgb(colour_of(index)))
    return to_hex((red, green, blue))


def centre_loss(grid: Grid) -> float:
    """Return the loss of the model in the middle."""
    return float(grid.losses[np.abs(grid.ys).argmin(), np.abs(grid.xs).argmin()])


def _corners(grid: Grid, log: bool) -> Floats:
    """Return the places of a finely divided grid, rows x columns x (x, y, drawn loss)."""
    losses = with_gaps(grid.losses)
    # Only where all losses are positive is the scale logarithmic.
    heights = np.log10(losses) if log else losses
    drawn = _divide(_divide(heights).T).T
    xs, ys = np.meshgrid(_divide(grid.xs), _divide(grid.ys))
    return np.stack([xs, ys, drawn], axis=-1)


def _divide(values: Floats) -> Floats:
    """Put points between neighbours along the last axis."""
    count = values.shape[-1]
    factor = max(round(FINE / max(count - 1, 1)), 1)
    at = np.arange((count - 1) * factor + 1) / factor
    left = np.minimum(at.astype(int), max(count - 2, 0))
    part = at - left
    # A place on the grid takes its own value only: 0 * NaN would spread a hole.
    before = np.where(part == 1, 0.0, values[..., left])
    after = np.where(part == 0, 0.0, values[..., np.minimum(left + 1, count - 1)])
    return np.asarray((1 - part) * before + part * after)


def _quads(places: Floats) -> Floats:
    quads = np.stack([places[:-1, :-1], places[:-1, 1:], places[1:, 1:], places[1:, :-1]], axis=2).reshape(-1, 4, 3)
    # A corner that is not finite leaves a hole.
    return quads[np.isfinite(quads).all(axis=(1, 2))]


def _mesh(places: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the pieces of the mesh's lines, as flat quads, so that they are sorted by depth among the faces."""
    fine = (len(places) - 1) // max(shape[0] - 1, 1), (places.shape[1] - 1) // max(shape[1] - 1, 1)
    lines = mesh_lines(places, fine)
    pieces = np.concatenate([np.stack([line[:-1], line[1:], line[1:], line[:-1]], axis=1) for line in lines])
    return np.asarray(pieces[np.isfinite(pieces).all(axis=(1, 2))])


def mesh_lines(places: Floats, fine: tuple[int, int] = (1, 1)) -> list[Floats]:
    """Return the lines of a mesh over `places`: on every row and column of the grid, or evenly fewer.

    `fine` tells how many rows and columns of places there are for each of the grid.
    """
    return [*_mesh_rows(places, fine[0]), *_mesh_rows(places.transpose(1, 0, 2), fine[1])]


def _mesh_rows(places: Floats, factor: int) -> list[Floats]:
    """Return the rows of places on which lines run: always the first and the last, and at most about `MESH`."""
    cells = (len(places) - 1) // max(factor, 1)
    every = max(-(-cells // MESH) * factor, 1)
    rows = {*range(0, len(places), every), len(places) - 1}
    return [places[row] for row in sorted(rows)]


def _shade(quads: Floats, colour: Floats, height: float) -> Floats:
    """Return the colour of each face under a light from the upper left; the side that the viewer sees counts."""
    wide = np.ptp(quads[..., :2].reshape(-1, 2), axis=0) if len(quads) else np.ones(2)
    # On the scale of the box that is drawn, or the light would depend on units.
    scaled = quads / np.array([*np.maximum(wide, 1e-12), height])
    normals = np.cross(scaled[:, 2] - scaled[:, 0], scaled[:, 3] - scaled[:, 1])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    up, turn = np.radians([UP, ROUND])
    viewer = np.array([np.cos(up) * np.cos(turn), np.cos(up) * np.sin(turn), np.sin(up)])
    normals *= np.where(normals @ viewer < 0, -1, 1)[:, None]
    bright = 0.72 + 0.4 * np.clip(normals @ (LIGHT / np.linalg.norm(LIGHT)), 0, 1)
    # Brighter than the colour is towards white, or its hue would change.
    rgb = np.where(bright[:, None] < 1, colour[:3] * bright[:, None], 1 - (1 - colour[:3]) * (2 - bright[:, None]))
    return np.concatenate([rgb, np.ones((len(quads), 1))], axis=1)


@in_style
def draw_surfaces(grids: Sequence[Grid], files: Sequence[Path], title: str = "") -> None:
    """Draw loss surfaces into each of the files: the first solid, the second as a mesh, and so on by turns.

    All share one scale, which is logarithmic where the losses span more than two decades. A loss that is not finite
    leaves a hole.
    """
    require_some(grids)
    figure = new_figure(COLUMN, 2.95, layout=None)
    _draw_on(figure, (0.0, 0.12, 0.93, 0.9), grids, is_wide(finite(grid.losses for grid in grids)))
    keys = [_key(index, f"{grid.label}: " + _centre([grid])) for index, grid in enumerate(grids)]
    finish(figure, files, one_note(grids), title, keys)


@in_style
def draw_surface_panels(panels: Mapping[str, Sequence[Grid]], files: Sequence[Path], title: str = "") -> None:
    """Draw panels with loss surfaces side by side: in each, the first solid, the second as a mesh, and so on.

    The same place in two panels is the same method. Every panel has a scale of its own, which is logarithmic where few
    losses are far above the others: one close to 0 is to look close to 0.
    """
    require_some(list(panels.values()))
    figure = new_figure(PAGE, 3.2, layout=None)
    width = 1 / len(panels)
    for place, (name, grids) in enumerate(panels.items()):
        _draw_on(figure, (place * width, 0.12, 0.93 * width, 0.82), grids, _has_peaks(grids))
        _add_name(figure, (place + 0.48) * width, name)
    rows = list(zip(*panels.values(), strict=True))
    keys = [_key(index, f"{row[0].label}: " + _centre(row)) for index, row in enumerate(rows)]
    finish(figure, files, one_note(grid for grids in panels.values() for grid in grids), title, keys)


def _has_peaks(grids: Sequence[Grid]) -> bool:
    """Say whether few losses are far above the others."""
    losses = finite(grid.losses for grid in grids)
    return is_wide(losses) and bool(losses.max() > LOG_FROM * np.median(losses))


def _add_name(figure: Any, x: float, name: str) -> None:
    from matplotlib.text import Text

    figure.add_artist(Text(x, 0.93, name, ha="center", fontsize=MEDIUM))


def _draw_on(figure: Any, place: tuple[float, float, float, float], grids: Sequence[Grid], log: bool) -> None:
    """Add one set of axes with surfaces."""
    losses = finite(grid.losses for grid in grids)
    heights = span(np.log10(losses) if log else losses, 0.03)
    axes = figure.add_axes(place, projection="3d")
    _dress(axes, grids, heights, log)
    _add_pieces(axes, [pieces_of(index, grid, log, heights) for index, grid in enumerate(grids)])
    for index, grid in enumerate(grids):
        if not is_solid(index):
            _add_net(axes, index, _corners(grid, log), grid.losses.shape)


def _add_pieces(axes: Any, surfaces: Sequence[tuple[Floats, Floats, Floats]]) -> None:
    """Add all surfaces as one collection: only then is each piece sorted by depth among those of the others.

    The library sorts colours along with the pieces, but not line widths: there is one for all.
    """
    shapes = importlib.import_module("mpl_toolkits.mplot3d.art3d")
    corners, faces, edges = (np.concatenate(parts) for parts in zip(*surfaces, strict=True))
    if len(corners):
        pieces = shapes.Poly3DCollection(corners, facecolors=faces, edgecolors=edges, linewidths=0.5)
        # As pixels: thousands of faces would make a vector file large and slow.
        pieces.set_rasterized(True)
        axes.add_collection3d(pieces, autolim=False)


def _add_net(axes: Any, index: int, places: Floats, shape: tuple[int, ...]) -> None:
    """Add the lines of a mesh once more, faint and above all: it is to be seen behind a solid surface too."""
    shapes = importlib.import_module("mpl_toolkits.mplot3d.art3d")
    pieces = _mesh(places, shape)[:, :2]
    if len(pieces):
        lines = shapes.Line3DCollection(pieces, colors=[colour(index)], alpha=HIDDEN, linewidths=0.5)
        lines.set_rasterized(True)
        axes.add_collection3d(lines, autolim=False)
        # By default the library decides by depth which collection is above.
        axes.computed_zorder = False
        lines.set_zorder(5)


def _dress(axes: Any, grids: Sequence[Grid], heights: tuple[float, float], log: bool) -> None:
    axes.set_xlim(*span(finite(grid.xs for grid in grids), 0.0))
    axes.set_ylim(*span(finite(grid.ys for grid in grids), 0.0))
    axes.set_zlim(*heights)
    axes.set_xlabel(_folded(grids[0].x_name), labelpad=-2)
    axes.set_ylabel(_folded(grids[0].y_name), labelpad=-2)
    axes.zaxis.set_rotate_label(False)
    axes.set_zlabel(named("loss", log), labelpad=-5, rotation=90)
    # The ends of both axes below meet in a corner, where there is room for no number.
    _dress_axis(axes.xaxis, "upper")
    _dress_axis(axes.yaxis, "lower")
    _dress_axis(axes.zaxis, None)
    if log:
        _name_powers(axes.zaxis)
    axes.tick_params(pad=-3)
    axes.view_init(UP, ROUND)
    axes.set_box_aspect((1, 1, 0.8), zoom=1.05)


def _dress_axis(axis: Any, prune: str | None) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(4, prune=prune))
    axis.set_pane_color((1, 1, 1, 0))
    # There is no public way to change this grid.
    axis._axinfo["grid"] |= {"color": PALE, "linewidth": 0.4}
    axis.line.set_color(GREY)


def _name_powers(axis: Any) -> None:
    """Put ticks at powers of ten: axes in three dimensions have no logarithmic scale, what is drawn are logarithms."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(4, integer=True))
    axis.set_major_formatter(FuncFormatter(_power))


def _power(exponent: float, _: Any) -> str:
    return plain(10.0**exponent)


def _folded(name: str) -> str:
    return fold(name, 1.3, MEDIUM)


def _centre(grids: Sequence[Grid]) -> str:
    """Return the loss of the model in the middle, of each panel."""
    middles = [short(centre_loss(grid)) for grid in grids]
    return together(f"loss {' and '.join(middles)} at the centre")


def _key(index: int, text: str) -> tuple[Any, str]:
    from matplotlib.patches import Patch

    if not is_solid(index):
        return Patch(facecolor="white", edgecolor=colour(index), hatch="+++++", linewidth=0.6), text
    return Patch(facecolor=paler(index), linewidth=0.6), text
