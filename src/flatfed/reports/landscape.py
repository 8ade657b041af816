"""The files of a landscape: pictures of each kind and, for surfaces, a page to turn them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flatfed.flatness.drawable import Grid, Line
from flatfed.reports.figures.contours import draw_contours
from flatfed.reports.figures.drawing.writing import PictureFiles
from flatfed.reports.figures.interactive import write_surface_page
from flatfed.reports.figures.lines import data_sets, draw_lines
from flatfed.reports.figures.surfaces import draw_surface_panels, draw_surfaces


def draw(
    kind: str, grids: Sequence[Grid], lines: Sequence[Line], pictures: PictureFiles, title: str = "", about: str = ""
) -> list[Path]:
    """Draw a landscape and return the files; `about` is what a page says of the models."""
    if kind == "along":
        return _draw_along(lines, pictures, title)
    if lines:
        return _draw_lines(lines, pictures, pictures.main(kind), title)
    if kind in ("plane", "clients"):
        return _draw_plane(kind, grids, pictures, title)
    if kind == "client-plane":
        # The losses of one client and of everyone differ in size, and share no levels.
        return _draw_contours(grids, pictures, pictures.main(kind), title, shared=False)
    return _draw_sheets(kind, grids, pictures, _Words(title, about))


@dataclass(frozen=True)
class _Words:
    """What stands above figures: a title, and of what the models are."""

    title: str
    about: str


def _draw_sheets(kind: str, grids: Sequence[Grid], pictures: PictureFiles, words: _Words) -> list[Path]:
    """Draw the surfaces of each sheet by themselves; a single sheet is called as the kind is."""
    sheets = _grouped(grids, _sheet)
    if len(sheets) == 1:
        return _draw_surfaces(grids, pictures, pictures.main(kind), words)
    files: list[Path] = []
    for sheet, own in sheets.items():
        files += _draw_surfaces(own, pictures, pictures.part(sheet.replace(" ", "-")), words)
    return files


def _draw_surfaces(grids: Sequence[Grid], pictures: PictureFiles, name: str, words: _Words) -> list[Path]:
    """Draw surfaces, their contours and a page: on one set of axes, or panel by panel."""
    files = pictures.of(name)
    panels = _grouped(grids, _panel)
    if len(panels) == 1:
        draw_surfaces(grids, files, words.title)
        return [*files, *_draw_beside(grids, pictures, name, words)]
    draw_surface_panels({_panel_title(own): own for own in panels.values()}, files, words.title)
    for panel, own in panels.items():
        short = panel.split()[0].removesuffix("'s")  # "everyone's examples" makes a file `...-everyone`
        files += _draw_beside(own, pictures, f"{name}-{short}", words)
    return files


def _draw_beside(grids: Sequence[Grid], pictures: PictureFiles, name: str, words: _Words) -> list[Path]:
    """Draw the contours of surfaces, and write a page to turn them."""
    contours = _draw_contours(grids, pictures, f"{name}-contours", words.title)
    return [*contours, *_write_page(grids, pictures.folder / f"{name}.html", words)]


def _write_page(grids: Sequence[Grid], page: Path, words: _Words) -> list[Path]:
    """Write a page to turn surfaces, where there is the library for it."""
    if importlib.util.find_spec("plotly") is None:
        return []
    write_surface_page(grids, page, words.title or _panel_title(grids), words.about)
    return [page]


def _panel_title(grids: Sequence[Grid]) -> str:
    """Return what the surfaces of a panel are; nothing where there is only one panel."""
    if not grids[0].panel:
        return ""
    return f"{grids[0].sheet}: {grids[0].panel}"


def _draw_lines(lines: Sequence[Line], pictures: PictureFiles, name: str, title: str) -> list[Path]:
    files = pictures.of(name)
    draw_lines(lines, files, title)
    return files


def _draw_contours(
    grids: Sequence[Grid],
    pictures: PictureFiles,
    name: str,
    title: str,
    value: Literal["loss", "error"] = "loss",
    shared: bool = True,
) -> list[Path]:
    files = pictures.of(name)
    draw_contours(grids, files, title, value, shared)
    return files


def _draw_along(lines: Sequence[Line], pictures: PictureFiles, title: str) -> list[Path]:
    """Draw each kind of direction by itself: their distances are not on one scale."""
    files: list[Path] = []
    for name in data_sets(lines):
        own = [line for line in lines if name in line.losses]
        files += _draw_lines(own, pictures, pictures.part(name.replace(" ", "-")), title)
    return files


def _draw_plane(kind: str, grids: Sequence[Grid], pictures: PictureFiles, title: str) -> list[Path]:
    """Draw the loss over the first set of examples, and the error over the last, as the papers do."""
    name = pictures.main(kind)
    files = _draw_contours(grids[:1], pictures, f"{name}-loss", title)
    if grids[-1].errors is not None:
        files += _draw_contours(grids[-1:], pictures, f"{name}-error", title, value="error")
    return files


def _sheet(grid: Grid) -> str:
    return grid.sheet


def _panel(grid: Grid) -> str:
    return grid.panel


def _grouped(grids: Sequence[Grid], by: Callable[[Grid], str]) -> dict[str, list[Grid]]:
    """Return grids by what they have in common, in order."""
    groups: dict[str, list[Grid]] = {}
    for grid in grids:
        groups.setdefault(by(grid), []).append(grid)
    return groups
