"""The files of a landscape: pictures of each kind and, for surfaces, a page to turn them."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from flatfed.flatness.results import Grid, Line
from flatfed.reports.figures.contours import draw_contours
from flatfed.reports.figures.interactive import write_surface_page
from flatfed.reports.figures.lines import draw_lines
from flatfed.reports.figures.surfaces import draw_surfaces


def draw(kind: str, grids: Sequence[Grid], lines: Sequence[Line], folder: Path, title: str = "") -> list[Path]:
    """Draw a landscape and return the files."""
    if kind == "along":
        return _draw_along(lines, folder, title)
    if lines:
        draw_lines(lines, files := _pair(folder, kind), title)
        return files
    if kind == "plane":
        return _draw_plane(grids, folder, title)
    draw_surfaces(grids, files := _pair(folder, kind), title)
    draw_contours(grids, more := _pair(folder, f"{kind}-contours"), title)
    page = folder / f"{kind}.html"
    pages = [page] if importlib.util.find_spec("plotly") is not None else []
    if pages:
        write_surface_page(grids, page, title)
    return [*files, *more, *pages]


def _draw_along(lines: Sequence[Line], folder: Path, title: str) -> list[Path]:
    """Draw each kind of direction by itself: their distances are not on one scale."""
    files: list[Path] = []
    for name in dict.fromkeys(name for line in lines for name in line.losses):
        own = [line for line in lines if name in line.losses]
        draw_lines(own, pair := _pair(folder, name.replace(" ", "-")), title)
        files += pair
    return files


def _draw_plane(grids: Sequence[Grid], folder: Path, title: str) -> list[Path]:
    """Draw the loss over the first set of examples, and the error over the last, as the papers do."""
    draw_contours(grids[:1], files := _pair(folder, "plane-loss"), title)
    if grids[-1].errors is not None:
        draw_contours(grids[-1:], more := _pair(folder, "plane-error"), title, value="error")
        files += more
    return files


def _pair(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.png", folder / f"{name}.svg"]
