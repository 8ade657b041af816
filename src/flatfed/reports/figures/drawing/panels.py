"""Panels in rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flatfed.reports.figures.drawing.style import MEDIUM
from flatfed.reports.figures.drawing.words import fold


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
