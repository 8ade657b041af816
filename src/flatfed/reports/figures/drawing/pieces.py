"""The pieces that a drawn surface is made of."""

from __future__ import annotations

import numpy as np

from flatfed.flatness.drawable import Floats, Grid
from flatfed.reports.figures.drawing.scales import with_gaps
from flatfed.reports.figures.drawing.style import colour as colour_of

FINE = 48
"""Faces along each side of a surface, about: coarser grids are divided, so that surfaces that cross hide each other."""
MESH = 24
"""Lines of a mesh along each side, at most."""
LIGHT = np.array([-0.45, -0.35, 0.82])
UP, ROUND = 24, -58
"""Degrees: where the viewer stands."""
GLASS = 0.14
"""Opacity of the faces of a mesh."""


def pieces_of(index: int, grid: Grid, log: bool, heights: tuple[float, float]) -> tuple[Floats, Floats, Floats]:
    """Return the corners of all pieces of a surface, the colours of their faces, and those of their edges."""
    from matplotlib.colors import to_rgba

    places = _corners(grid, log)
    colour = np.array(to_rgba(colour_of(index)))
    quads = _quads(places)
    shades = _shade(quads, colour, heights[1] - heights[0])
    if index % 2 == 0:  # a solid surface: edges in the colour of the faces close the seams
        return quads, shades, shades
    shades[:, 3] = GLASS
    lines = _mesh(places, grid.losses.shape)
    faces = np.concatenate([shades, np.zeros((len(lines), 4))])
    # Faces have no edges here, because the lines of a mesh are pieces of their own.
    edges = np.concatenate([np.zeros_like(shades), np.tile(colour, (len(lines), 1))])
    return np.concatenate([quads, lines]), faces, edges


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
    bright = 0.6 + 0.55 * np.clip(normals @ (LIGHT / np.linalg.norm(LIGHT)), 0, 1)
    # Brighter than the colour is towards white, or its hue would change.
    rgb = np.where(bright[:, None] < 1, colour[:3] * bright[:, None], 1 - (1 - colour[:3]) * (2 - bright[:, None]))
    return np.concatenate([rgb, np.ones((len(quads), 1))], axis=1)
