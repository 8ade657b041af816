"""The smoothed density of spectra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats, Spectrum
from flatfed.reports.figures.drawing.style import look
from flatfed.reports.figures.drawing.words import plain

SHARE = 0.005
SMOOTHED = f"density: Gaussians, their standard deviation {SHARE:.1%} of each range"
DEEP = 1e-7
"""Of the highest density: what is lower is not drawn."""
REACH = 5
"""Widths of a Gaussian from its middle to where it ends."""
TICKS = 4
"""Ticks on each side of zero, about."""


def draw_densities(axes: Any, spectra: Sequence[Spectrum]) -> None:
    """Draw the density of each spectrum that has one: logarithmic upwards, and across beyond the Gaussians' width."""
    rules = {index: _known(spectrum) for index, spectrum in enumerate(spectra)}
    rules = {index: rule for index, rule in rules.items() if len(rule[0])}
    widths = {index: _width(points) for index, (points, _) in rules.items()}
    if not rules:
        return
    linear = min(widths.values())
    places = {index: _places(points, linear, widths[index]) for index, (points, _) in rules.items()}
    curves = {index: _density(places[index], *rules[index], widths[index]) for index in rules}
    floor, highest = (factor * max(curve.max() for curve in curves.values()) for factor in (DEEP, 3))
    axes.set_yscale("log")
    axes.set_xscale("symlog", linthresh=linear, linscale=0.5)
    for index, curve in curves.items():
        # Below the axes is below the axes: how far no one sees, but the scale has to have a place for it.
        shown = np.maximum(curve, floor / 10)
        axes.plot(places[index], shown, **look(index))
        axes.fill_between(places[index], floor / 10, shown, alpha=0.1, color=look(index)["color"], linewidth=0)
    axes.set_ylim(floor, highest)
    _set_ticks(axes, linear, np.concatenate(list(places.values())))
    axes.set_xlabel("eigenvalue (log scale on both sides of 0)")
    axes.set_ylabel("density (log scale)")
    axes.grid(axis="y")


def _known(spectrum: Spectrum) -> tuple[Floats, Floats]:
    known = np.isfinite(spectrum.points) & np.isfinite(spectrum.weights)
    return spectrum.points[known], spectrum.weights[known]


def _width(points: Floats) -> float:
    """Return the standard deviation of the Gaussians."""
    return SHARE * float(np.ptp(points) or np.abs(points).max() or 1.0)


def _places(points: Floats, linear: float, width: float) -> Floats:
    """Return where the density is taken: as dense as the scale needs, and near each point a fifth of a width apart."""
    low, high = points.min() - REACH * width, points.max() + REACH * width
    even = linear * np.sinh(np.linspace(np.arcsinh(low / linear), np.arcsinh(high / linear), 200))
    steps = np.unique(np.rint(5 * points / width)[:, None] + np.arange(-5 * REACH, 5 * REACH + 1))
    return np.unique(np.concatenate([even, np.clip(steps * width / 5, low, high)]))


def _density(xs: Floats, points: Floats, weights: Floats, width: float) -> Floats:
    bells = np.exp(-0.5 * ((xs[:, None] - points) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return np.asarray(bells @ weights)


def _set_ticks(axes: Any, linear: float, xs: Floats) -> None:
    """Put ticks at 0 and at powers of ten, few enough not to touch."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    first, last = np.ceil(np.log10(linear)), np.floor(np.log10(np.abs(xs).max()))
    powers = 10.0 ** np.arange(last, first - 1, -max(1, (last - first) // TICKS))
    ticks = [0.0, *(side * power for power in powers for side in (1, -1) if xs.min() <= side * power <= xs.max())]
    axes.xaxis.set_major_locator(FixedLocator(sorted(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(numticks=5))
    axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
