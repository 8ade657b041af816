"""The files of a landscape: pictures of each kind and, for surfaces, a page to turn them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from flatfed.flatness.results import Grid, Line
from flatfed.reports.figures.contours import draw_contours
from flatfed.reports.figures.interactive import write_surface_page
from flatfed.reports.figures.lines import draw_lines
from flatfed.reports.figures.surfaces import draw_surface_panels, draw_surfaces


def draw(kind: str, grids: Sequence[Grid], lines: Sequence[Line], folder: Path, title: str = "") -> list[Path]:
    """Draw a landscape and return the files."""
    if kind == "along":
        return _draw_along(lines, folder, title)
    if lines:
        draw_lines(lines, files := _pair(folder, kind), title)
        return files
    if kind in ("plane", "clients"):
        return _draw_plane(kind, grids, folder, title)
    if kind == "client-plane":
        draw_contours(grids, files := _pair(folder, kind), title, shared=False)
        return files
    sheets = _grouped(grids, lambda grid: grid.sheet)
    names = {sheet: kind if len(sheets) == 1 else sheet.replace(" ", "-") for sheet in sheets}
    return [file for sheet, own in sheets.items() for file in _draw_surfaces(own, folder, names[sheet], title)]


def _draw_surfaces(grids: Sequence[Grid], folder: Path, name: str, title: str) -> list[Path]:
    """Draw surfaces, their contours and a page: on one set of axes, or panel by panel."""
    files, panels = _pair(folder, name), _grouped(grids, lambda grid: grid.panel)
    if len(panels) == 1:
        draw_surfaces(grids, files, title)
        draw_contours(grids, more := _pair(folder, f"{name}-contours"), title)
        return [*files, *more, *_write_page(grids, folder / f"{name}.html", title)]
    draw_surface_panels({f"{own[0].sheet}: {panel}": own for panel, own in panels.items()}, files, title)
    for panel, own in panels.items():
        part = "-".join((name, panel.split()[0].removesuffix("'s")))
        draw_contours(own, more := _pair(folder, f"{part}-contours"), title)
        files += [*more, *_write_page(own, folder / f"{part}.html", title)]
    return files


def _write_page(grids: Sequence[Grid], page: Path, title: str) -> list[Path]:
    """Write a page to turn surfaces, where there is the library for it."""
    if importlib.util.find_spec("plotly") is None:
        return []
    write_surface_page(grids, page, title or (f"{grids[0].sheet}: {grids[0].panel}" if grids[0].panel else ""))
    return [page]


def _draw_along(lines: Sequence[Line], folder: Path, title: str) -> list[Path]:
    """Draw each kind of direction by itself: their distances are not on one scale."""
    files: list[Path] = []
    for name in dict.fromkeys(name for line in lines for name in line.losses):
        own = [line for line in lines if name in line.losses]
        draw_lines(own, pair := _pair(folder, name.replace(" ", "-")), title)
        files += pair
    return files


def _draw_plane(kind: str, grids: Sequence[Grid], folder: Path, title: str) -> list[Path]:
    """Draw the loss over the first set of examples, and the error over the last, as the papers do."""
    draw_contours(grids[:1], files := _pair(folder, f"{kind}-loss"), title)
    if grids[-1].errors is not None:
        draw_contours(grids[-1:], more := _pair(folder, f"{kind}-error"), title, value="error")
        files += more
    return files


def _grouped(grids: Sequence[Grid], by: Callable[[Grid], str]) -> dict[str, list[Grid]]:
    """Return grids by what they have in common, in order."""
    return {name: [grid for grid in grids if by(grid) == name] for name in dict.fromkeys(map(by, grids))}


def _pair(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.png", folder / f"{name}.svg"]
