"""Scales of axes, and panels in rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats, Grid
from flatfed.reports.figures.drawing.style import MEDIUM, fold, plain
from flatfed.reports.figures.drawing.style import colour as colour_of

LOG_FROM = 100.0
"""From this ratio of the largest to the smallest on, a scale is logarithmic."""
LEVELS = 10
STEPS = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Levels within a decade; the most that are not too many are taken."""


def finite(values: Iterable[Any]) -> Floats:
    """Return all finite numbers of some arrays, in one row."""
    rows = [np.asarray(part, dtype=np.float64).ravel() for part in values]
    row = np.concatenate(rows) if rows else np.empty(0)
    return row[np.isfinite(row)]


def with_gaps(values: Floats) -> Floats:
    """Return numbers with NaN, which is not drawn, for all that are not finite."""
    return np.where(np.isfinite(values), values, np.nan)


def is_wide(values: Floats, ratio: float = LOG_FROM) -> bool:
    """Say whether numbers span so much that a logarithmic scale is needed, and can have one."""
    return bool(values.size and values.min() > 0 and values.max() > ratio * values.min())


def span(values: Floats, share: float = 0.05) -> tuple[float, float]:
    """Return ends of a scale that holds the numbers, with a margin on both sides, also where they are all the same."""
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = _margin(low, high, share)
    return low - margin, high + margin


def _margin(low: float, high: float, share: float) -> float:
    if high > low:
        return share * (high - low)
    # All values may be 0.
    return 0.1 * abs(high) or 0.5


def fit_scale(axis: Any, values: Floats) -> None:
    """Make the axis of these numbers logarithmic where they need it."""
    if is_wide(values):
        make_log(axis, values.max() / values.min())


def make_log(axis: Any, spread: float) -> None:
    """Make an axis logarithmic, its ticks plain numbers; `spread` is the ratio of its ends."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
    axis.set_major_locator(LogLocator(subs=_ticks_per_decade(spread), numticks=8))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _ticks_per_decade(spread: float) -> tuple[float, ...]:
    """Return where ticks stand in a decade: few decades have room for two in each."""
    if spread < 1e3:
        return (1.0, 3.0)
    return (1.0,)


def _tick(value: float, _: Any) -> str:
    return plain(value)


def round_levels(values: Floats, log: bool) -> Floats:
    """Return round levels from the smallest to the largest value or just beyond."""
    if not values.size:
        return _even_levels(values)
    levels = _log_levels(values) if log else _even_levels(values)
    # 1e30 is not 10 * 1e29: a level that was computed may lie just inside.
    levels[0] = min(levels[0], values.min())
    levels[-1] = max(levels[-1], values.max())
    return levels


def _even_levels(values: Floats) -> Floats:
    from matplotlib.ticker import MaxNLocator

    locator = MaxNLocator(LEVELS, steps=[1, 2, 2.5, 5, 10])
    return np.asarray(locator.tick_values(*_ends(values)))


def _ends(values: Floats) -> tuple[float, float]:
    """Return the smallest and the largest value, or ends around them where all are the same or there is none."""
    if values.size and np.ptp(values):
        return values.min(), values.max()
    return span(values)


def _log_levels(values: Floats) -> Floats:
    """Return as many levels within each decade as are not too many in all, else only every n-th power of ten."""
    low, high = int(np.floor(np.log10(values.min()))), int(np.ceil(np.log10(values.max())))
    for steps in STEPS:
        levels = _levels_within(values, steps, range(low, high + 1))
        if len(levels) <= LEVELS + 3:
            return levels
    every = -(-(high - low) // LEVELS)
    return 10.0 ** np.arange(low, high + every, every, dtype=np.float64)


def _levels_within(values: Floats, steps: Sequence[float], decades: Iterable[int]) -> Floats:
    """Return the levels from the last one below the values to the first one above them."""
    levels = np.sort([step * 10.0**decade for decade in decades for step in steps])
    first = max(int(np.searchsorted(levels, values.min(), side="right")) - 1, 0)
    last = int(np.searchsorted(levels, values.max()))
    return levels[first : last + 1]


def columns_for(count: int) -> int:
    """Return how many square panels stand in a row: up to three, and four in two rows."""
    if count == 4:
        return 2
    return min(count, 3)


def rows_for(count: int, columns: int) -> int:
    """Return how many rows hold these panels; the last need not be full."""
    return -(-count // columns)


def add_panels(figure: Any, count: int, columns: int, shared: bool = False) -> list[Any]:
    """Add panels, row by row; what is left over in the last row stays blank. With `shared` they have one scale."""
    rows = rows_for(count, columns)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=shared, sharey=shared).ravel())
    for axes in panels[count:]:
        axes.set_axis_off()
    return panels[:count]


def add_titles(panels: Sequence[Any], titles: Sequence[str], width: float) -> None:
    """Put a title above each panel, broken into lines of at most `width` inches."""
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(fold(title, width, MEDIUM))


def left_ones(panels: Sequence[Any], columns: int) -> Sequence[Any]:
    """Return the first panel of each row."""
    return panels[::columns]


def lowest_ones(panels: Sequence[Any], columns: int) -> Sequence[Any]:
    """Return the panels with none below them: the last row and, where it is not full, the end of the row above."""
    return panels[-columns:]


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
