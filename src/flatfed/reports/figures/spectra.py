"""Spectra of Hessians: the largest eigenvalues, and the density of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.results import Spectrum
from flatfed.reports.figures.densities import SMOOTHED, draw_densities
from flatfed.reports.figures.drawing.scales import finite, is_wide, make_log
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    INK,
    MEDIUM,
    PAGE,
    finish,
    in_style,
    look,
    new_figure,
    require_some,
)
from flatfed.reports.figures.drawing.words import fold, named, one_note

MOST = 50
"""Eigenvalues of each, at most."""
TOGETHER = 3
"""Spectra whose bars stand side by side, at most; more have panels of their own."""
ACROSS = 4
"""Panels in a row."""
BARS, DENSITY = 1.5, 2.3
"""Inches: heights of panels."""


@in_style
def draw_spectra(spectra: Sequence[Spectrum], files: Sequence[Path], title: str = "") -> None:
    """Draw the largest eigenvalues as bars, residuals as error bars, and the smoothed density where there is one.

    All eigenvalues share one scale, logarithmic where they are positive and span more than two decades.
    """
    require_some(spectra)
    dense = any(len(spectrum.points) for spectrum in spectra)
    apart = len(spectra) > TOGETHER
    figure, panels, density = _panels_apart(spectra, dense) if apart else _panel_together(spectra, dense)
    values = finite(spectrum.values[:MOST] for spectrum in spectra)
    floor = values.min() / 2 if is_wide(values) else None
    if floor is not None:
        make_log(panels[0].yaxis, values.max() / values.min())
        panels[0].set_ylim(floor, values.max() * 1.5)
    for index, spectrum in enumerate(spectra):
        axes, place, count = (panels[index], 0, 1) if apart else (panels[0], index, len(spectra))
        _draw_bars(axes, spectrum, look(index)["color"], (place, count), floor)
    for axes in panels[::ACROSS]:
        axes.set_ylabel(named("eigenvalue", floor is not None))
    for axes in panels[-ACROSS:]:
        axes.set_xlabel("rank")
    if dense:
        draw_densities(density, spectra)
    note = "; ".join(filter(None, [one_note(spectra), SMOOTHED if dense else ""]))
    keys = [_key(index, spectrum) for index, spectrum in enumerate(spectra)] if dense or not apart else []
    finish(figure, files, note, title, keys)


def _panel_together(spectra: Sequence[Spectrum], dense: bool) -> tuple[Any, list[Any], Any]:
    """Return a figure, its one panel of bars, and that of the density beside it, where there is one."""
    bars = sum(len(spectrum.values[:MOST]) for spectrum in spectra)
    figure = new_figure(PAGE if dense or bars > MOST else COLUMN, DENSITY)
    panels = figure.subplots(1, 2 if dense else 1, squeeze=False)[0]
    return figure, [panels[0]], panels[-1]


def _panels_apart(spectra: Sequence[Spectrum], dense: bool) -> tuple[Any, list[Any], Any]:
    """Return a figure, a panel of bars for each spectrum, and below them that of the density, where there is one."""
    rows = -(-len(spectra) // ACROSS)
    heights = [BARS] * rows + [DENSITY] * dense
    figure = new_figure(PAGE, sum(heights))
    grid = figure.add_gridspec(len(heights), ACROSS, height_ratios=heights)
    panels: list[Any] = []
    for index, spectrum in enumerate(spectra):
        first = panels[0] if panels else None
        axes = figure.add_subplot(grid[index // ACROSS, index % ACROSS], sharex=first, sharey=first)
        axes.set_title(fold(spectrum.label, PAGE / ACROSS - 0.4, MEDIUM))
        axes.tick_params(labelleft=index % ACROSS == 0)
        panels.append(axes)
    return figure, panels, figure.add_subplot(grid[rows, :]) if dense else None


def _draw_bars(axes: Any, spectrum: Spectrum, colour: str, place: tuple[int, int], floor: float | None) -> None:
    """Draw the bars of a spectrum, the one with this place among so many; above the floor of a logarithmic scale."""
    from matplotlib.ticker import MaxNLocator

    known = np.isfinite(spectrum.values[:MOST])
    values = spectrum.values[:MOST][known]
    residuals = np.nan_to_num(spectrum.residuals[:MOST][known], posinf=0.0)
    width = 0.8 / place[1]
    ranks = np.arange(1, len(known) + 1)[known] + (place[0] - (place[1] - 1) / 2) * width
    below = residuals if floor is None else np.minimum(residuals, values - floor)
    axes.bar(ranks, values, width, color=colour, linewidth=0, snap=False)
    axes.errorbar(ranks, values, [below, residuals], fmt="none", ecolor=INK, elinewidth=0.6, capsize=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.grid(axis="y")
    axes.margins(x=0.02)
    if (values < 0).any():
        axes.axhline(0, color=INK, linewidth=0.6)


def _key(index: int, spectrum: Spectrum) -> tuple[Any, str]:
    from matplotlib.patches import Patch

    return Patch(facecolor=look(index)["color"]), spectrum.label
