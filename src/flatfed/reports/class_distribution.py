"""The figure of a partition: how many samples of each class each client holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flatfed.reports.figures.drawing.style import COLOURS, finish, in_style, new_figure

Ints = npt.NDArray[np.int64]

CELL = 0.06
"""Inches that a client or a class takes, where the figure has room."""


@in_style
def draw_class_distribution(table: Ints, files: Sequence[Path], title: str = "") -> None:
    """Draw clients x classes into each of the files; the ending decides the format.

    A cell is darker the more samples it stands for, and white where there are none: one hue in several
    shades, for any kind of colour vision. Bars show the size of every client above, and of every class to the right.
    """
    clients, classes = table.shape
    width, height = _inches(clients, 3.3, 5.2), _inches(classes, 1.5, 5.2)
    figure = new_figure(width + 1.8, height + 1.5)
    grid = figure.add_gridspec(2, 2, width_ratios=[width, 0.9], height_ratios=[0.9, height])
    cells = figure.add_subplot(grid[1, 0])
    _draw_cells(figure, cells, table)
    _draw_client_sizes(figure.add_subplot(grid[0, 0], sharex=cells), table.sum(axis=1))
    _draw_class_sizes(figure.add_subplot(grid[1, 1], sharey=cells), table.sum(axis=0))
    finish(figure, files, title=title)


def _inches(count: int, least: float, most: float) -> float:
    return min(max(CELL * count, least), most)


def _draw_cells(figure: Any, axes: Any, table: Ints) -> None:
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator

    # By the square root: a few samples are still seen beside a full class.
    most = max(int(table.max()), 2)  # a scale from 1 to 1 has no length
    scale = PowerNorm(0.5, vmin=1, vmax=most)
    shown = np.ma.masked_equal(table.T, 0)
    image = axes.imshow(shown, cmap=_shades(), norm=scale, aspect="auto", origin="lower", interpolation="antialiased")
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    # There are no halves of clients and classes.
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    _add_colour_bar(figure, axes, image, most)


def _add_colour_bar(figure: Any, axes: Any, image: Any, most: int) -> None:
    from matplotlib.ticker import MaxNLocator

    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40, pad=0.02)
    bar.set_label("samples of the class")
    # The scale begins at 1, which is no round number: it is a tick all the same.
    ticks = np.asarray(MaxNLocator(5, integer=True).tick_values(1, most))
    bar.set_ticks([1, *ticks[(ticks > 1) & (ticks <= most)]])
    bar.minorticks_off()


def _shades() -> Any:
    """Return the house blue from pale to nearly black; nothing is white."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("samples", ["#D6E8F5", "#56B4E9", COLOURS[0], "#00243A"])
    return shades.with_extremes(bad="white")


def _draw_client_sizes(axes: Any, sizes: Ints) -> None:
    _draw_bars(axes, sizes, "vertical")
    axes.set_ylabel("samples")
    axes.set_ylim(bottom=0)
    axes.tick_params(axis="x", bottom=False, labelbottom=False)


def _draw_class_sizes(axes: Any, sizes: Ints) -> None:
    _draw_bars(axes, sizes, "horizontal")
    axes.set_xlabel("samples")
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", left=False, labelleft=False)
    axes.tick_params(axis="x", labelrotation=90)


def _draw_bars(axes: Any, sizes: Ints, orientation: str) -> None:
    """Draw a bar for each, or one outline where they are many: gaps would only flicker."""
    if len(sizes) > 50:
        edges = np.arange(len(sizes) + 1) - 0.5
        axes.stairs(sizes, edges, orientation=orientation, fill=True, color=COLOURS[0], linewidth=0)
    elif orientation == "vertical":
        axes.bar(np.arange(len(sizes)), sizes, 0.8, color=COLOURS[0], linewidth=0)
    else:
        axes.barh(np.arange(len(sizes)), sizes, 0.8, color=COLOURS[0], linewidth=0)
    axes.spines[["top", "right"]].set_visible(False)
