"""Spectra of Hessians: the largest eigenvalues, and the density of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats, Spectrum
from flatfed.reports.figures.densities import SMOOTHED, draw_densities
from flatfed.reports.figures.drawing.scales import finite, is_wide, left_ones, lowest_ones, make_log, rows_for
from flatfed.reports.figures.drawing.style import (
    COLUMN,
    INK,
    MEDIUM,
    PAGE,
    colour,
    finish,
    fold,
    in_style,
    named,
    new_figure,
    one_note,
    require_some,
)

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
    panels = _panels_apart(spectra) if _are_apart(spectra) else _panel_together(spectra)
    floor = _fit_scale(panels.bars[0], finite(spectrum.values[:MOST] for spectrum in spectra))
    for index, spectrum in enumerate(spectra):
        axes, place = panels.place_of(index, len(spectra))
        _draw_bars(axes, spectrum, colour(index), place, floor)
    _name_axes(panels.bars, named("eigenvalue", floor is not None))
    if panels.density is not None:
        draw_densities(panels.density, spectra)
    finish(panels.figure, files, _note(spectra), title, _keys(spectra))


@dataclass(frozen=True)
class _Panels:
    """A figure, its panels of bars (one for each spectrum, or one for all), and that of the density, if there is."""

    figure: Any
    bars: list[Any]
    density: Any

    def place_of(self, index: int, count: int) -> tuple[Any, tuple[int, int]]:
        """Return the panel of a spectrum, and which of how many its bars are there."""
        if len(self.bars) == 1:
            return self.bars[0], (index, count)
        return self.bars[index], (0, 1)


def _are_apart(spectra: Sequence[Spectrum]) -> bool:
    """Say whether each spectrum has a panel of its own."""
    return len(spectra) > TOGETHER


def _are_dense(spectra: Sequence[Spectrum]) -> bool:
    """Say whether some spectrum has a density."""
    return any(len(spectrum.points) for spectrum in spectra)


def _fit_scale(axes: Any, values: Floats) -> float | None:
    """Make the scale logarithmic where the values need it; return its lower end then, where bars begin."""
    if not is_wide(values):
        return None
    # Bars begin somewhere, and a logarithmic scale has no 0.
    floor = float(values.min() / 2)
    make_log(axes.yaxis, values.max() / values.min())
    axes.set_ylim(floor, values.max() * 1.5)
    return floor


def _name_axes(panels: Sequence[Any], y_name: str) -> None:
    """Name the axes at the left and below only; all panels have the same."""
    for axes in left_ones(panels, ACROSS):
        axes.set_ylabel(y_name)
    for axes in lowest_ones(panels, ACROSS):
        axes.set_xlabel("rank")


def _note(spectra: Sequence[Spectrum]) -> str:
    parts = [one_note(spectra)]
    if _are_dense(spectra):
        parts.append(SMOOTHED)
    return "; ".join(filter(None, parts))


def _keys(spectra: Sequence[Spectrum]) -> list[tuple[Any, str]]:
    """Return the legend; panels that have a title each need none, unless the density has them all."""
    if _are_apart(spectra) and not _are_dense(spectra):
        return []
    return [_key(index, spectrum) for index, spectrum in enumerate(spectra)]


def _panel_together(spectra: Sequence[Spectrum]) -> _Panels:
    """Return one panel of bars, and that of the density beside it, where there is one."""
    bars = sum(len(spectrum.values[:MOST]) for spectrum in spectra)
    if _are_dense(spectra):
        figure = new_figure(PAGE, DENSITY)
        left, right = figure.subplots(1, 2)
        return _Panels(figure, [left], right)
    width = PAGE if bars > MOST else COLUMN
    figure = new_figure(width, DENSITY)
    return _Panels(figure, [figure.subplots()], None)


def _panels_apart(spectra: Sequence[Spectrum]) -> _Panels:
    """Return a panel of bars for each spectrum, and below them that of the density, where there is one."""
    rows = rows_for(len(spectra), ACROSS)
    heights = [BARS] * rows + [DENSITY] * _are_dense(spectra)
    figure = new_figure(PAGE, sum(heights))
    grid = figure.add_gridspec(len(heights), ACROSS, height_ratios=heights)
    panels: list[Any] = []
    first = None
    for index, spectrum in enumerate(spectra):
        axes = figure.add_subplot(grid[index // ACROSS, index % ACROSS], sharex=first, sharey=first)
        axes.set_title(fold(spectrum.label, PAGE / ACROSS - 0.4, MEDIUM))
        axes.tick_params(labelleft=index % ACROSS == 0)
        panels.append(axes)
        first = panels[0]
    density = figure.add_subplot(grid[rows, :]) if _are_dense(spectra) else None
    return _Panels(figure, panels, density)


def _draw_bars(axes: Any, spectrum: Spectrum, shade: str, place: tuple[int, int], floor: float | None) -> None:
    """Draw the bars of a spectrum, which of how many `place` says; above the floor of a logarithmic scale."""
    known = np.isfinite(spectrum.values[:MOST])
    values = spectrum.values[:MOST][known]
    # An eigenvalue whose residual is not known is drawn without an error bar.
    residuals = np.nan_to_num(spectrum.residuals[:MOST][known], posinf=0.0)
    number, count = place
    width = 0.8 / count
    ranks = np.arange(1, len(known) + 1)[known] + (number - (count - 1) / 2) * width
    # A logarithmic scale has no place for an error bar that reaches 0 or below.
    below = residuals if floor is None else np.minimum(residuals, values - floor)
    # Not snapped to pixels, which would make thin bars unequally wide.
    axes.bar(ranks, values, width, color=shade, linewidth=0, snap=False)
    axes.errorbar(ranks, values, [below, residuals], fmt="none", ecolor=INK, elinewidth=0.6, capsize=0)
    _dress(axes)
    if (values < 0).any():
        axes.axhline(0, color=INK, linewidth=0.6)


def _dress(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    axes.grid(axis="y")
    axes.margins(x=0.02)


def _key(index: int, spectrum: Spectrum) -> tuple[Any, str]:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour(index)), spectrum.label
