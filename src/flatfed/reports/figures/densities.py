"""The smoothed density of spectra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flatfed.flatness.results import Floats, Spectrum
from flatfed.reports.figures.style import look
from flatfed.reports.figures.words import plain

SHARE = 0.005
SMOOTHED = f"density: Gaussians, their standard deviation {SHARE:.1%} of each range"
DEEP = 1e-7
"""Of the highest density: what is lower is not drawn."""
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
    everything = np.concatenate([points for points, _ in rules.values()])
    reach = 4 * max(widths.values())
    xs = _places(everything, linear, reach)
    curves = {index: _density(xs, *rules[index], widths[index]) for index in rules}
    highest = max(curve.max() for curve in curves.values())
    axes.set_yscale("log")
    axes.set_xscale("symlog", linthresh=linear, linscale=0.5)
    for index, curve in curves.items():
        axes.plot(xs, np.where(curve > DEEP * highest, curve, np.nan), **look(index))
        axes.fill_between(
            xs, DEEP * highest, np.maximum(curve, DEEP * highest), alpha=0.1, color=look(index)["color"], linewidth=0
        )
    axes.set_ylim(DEEP * highest, 3 * highest)
    _set_ticks(axes, linear, xs)
    axes.set_xlabel("eigenvalue (log scale on both sides of 0)")
    axes.set_ylabel("density (log scale)")
    axes.grid(axis="y")


def _known(spectrum: Spectrum) -> tuple[Floats, Floats]:
    known = np.isfinite(spectrum.points) & np.isfinite(spectrum.weights)
    return spectrum.points[known], spectrum.weights[known]


def _width(points: Floats) -> float:
    """Return the standard deviation of the Gaussians."""
    return SHARE * float(np.ptp(points) or np.abs(points).max() or 1.0)


def _places(points: Floats, linear: float, reach: float) -> Floats:
    """Return where the density is taken: as dense as the scale needs, and densely around each point."""
    low, high = points.min() - reach, points.max() + reach
    ends = np.arcsinh(np.array([low, high]) / linear)
    even = linear * np.sinh(np.linspace(*ends, 1000))
    near = points[:, None] + reach * np.linspace(-1, 1, 81)
    return np.unique(np.clip(np.concatenate([even, near.ravel()]), low, high))


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
