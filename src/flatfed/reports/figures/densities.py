"""The smoothed density of spectra."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Floats, Spectrum
from flatfed.reports.figures.drawing.style import colour, look, plain

SHARE = 0.005
SMOOTHED = f"density: Gaussians, their standard deviation {SHARE:.1%} of each range"
DEEP = 1e-7
"""Of the highest density: what is lower is not drawn."""
REACH = 5
"""Widths of a Gaussian from its middle to where it ends."""
TICKS = 4
"""Ticks on each side of zero, about."""


@dataclass(frozen=True)
class _Rule:
    """Points of a spectrum and their weights, all finite; `index` decides the look of its density."""

    index: int
    points: Floats
    weights: Floats

    @property
    def width(self) -> float:
        return _width(self.points)


@dataclass(frozen=True)
class _Curve:
    """A density: where it was taken, and its values."""

    index: int
    xs: Floats
    values: Floats


def smoothed(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return where the density of one spectrum is taken, and its values there; all points must be finite."""
    width = _width(points)
    xs = _places(points, width, width)
    return xs, _density(xs, points, weights, width)


def draw_densities(axes: Any, spectra: Sequence[Spectrum]) -> None:
    """Draw the density of each spectrum that has one: logarithmic upwards, and across beyond the Gaussians' width."""
    rules = _rules(spectra)
    if not rules:
        return
    # One scale for all, on which the narrowest Gaussian must still be seen.
    linear = min(rule.width for rule in rules)
    curves = [_curve(rule, linear) for rule in rules]
    # Most eigenvalues are close to 0: beside them the few large ones would not be seen.
    axes.set_yscale("log")
    # Eigenvalues lie on both sides of 0, for which a plain logarithm has no place.
    axes.set_xscale("symlog", linthresh=linear, linscale=0.5)
    _draw_curves(axes, curves)
    _set_ticks(axes, linear, np.concatenate([curve.xs for curve in curves]))
    axes.set_xlabel("eigenvalue (log scale on both sides of 0)")
    axes.set_ylabel("density (log scale)")
    axes.grid(axis="y")


def _draw_curves(axes: Any, curves: Sequence[_Curve]) -> None:
    highest = max(curve.values.max() for curve in curves)
    floor = DEEP * highest
    for curve in curves:
        _draw_curve(axes, curve, floor)
    axes.set_ylim(floor, 3 * highest)


def _rules(spectra: Sequence[Spectrum]) -> list[_Rule]:
    """Return the points of each spectrum that has a density."""
    rules = [_Rule(index, *_known(spectrum)) for index, spectrum in enumerate(spectra)]
    return [rule for rule in rules if len(rule.points)]


def _known(spectrum: Spectrum) -> tuple[Floats, Floats]:
    """Return the finite points of a spectrum's density, and their weights."""
    known = np.isfinite(spectrum.points) & np.isfinite(spectrum.weights)
    return spectrum.points[known], spectrum.weights[known]


def _curve(rule: _Rule, linear: float) -> _Curve:
    xs = _places(rule.points, linear, rule.width)
    return _Curve(rule.index, xs, _density(xs, rule.points, rule.weights, rule.width))


def _draw_curve(axes: Any, curve: _Curve, floor: float) -> None:
    # Below the axes is below the axes: how far no one sees, but the scale has to have a place for it.
    bottom = floor / 10
    values = np.maximum(curve.values, bottom)
    axes.plot(curve.xs, values, **look(curve.index))
    axes.fill_between(curve.xs, bottom, values, alpha=0.1, color=colour(curve.index), linewidth=0)


def _width(points: Floats) -> float:
    """Return the standard deviation of the Gaussians."""
    # All points may be the same, and that one may be 0.
    return SHARE * float(np.ptp(points) or np.abs(points).max() or 1.0)


def _places(points: Floats, linear: float, width: float) -> Floats:
    """Return where the density is taken: as dense as the scale needs, and near each point a fifth of a width apart."""
    low, high = points.min() - REACH * width, points.max() + REACH * width
    # Even on a scale that is linear near 0 and logarithmic beyond, as the axis is.
    even = linear * np.sinh(np.linspace(np.arcsinh(low / linear), np.arcsinh(high / linear), 200))
    steps = np.unique(np.rint(5 * points / width)[:, None] + np.arange(-5 * REACH, 5 * REACH + 1))
    return np.unique(np.concatenate([even, np.clip(steps * width / 5, low, high)]))


def _density(xs: Floats, points: Floats, weights: Floats, width: float) -> Floats:
    bells = np.exp(-0.5 * ((xs[:, None] - points) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return np.asarray(bells @ weights)


def _set_ticks(axes: Any, linear: float, xs: Floats) -> None:
    """Put ticks at 0 and at powers of ten, few enough not to touch."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(_ticks(linear, xs)))
    axes.yaxis.set_major_locator(LogLocator(numticks=5))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(_tick))


def _ticks(linear: float, xs: Floats) -> list[float]:
    """Return 0 and powers of ten on both sides of it that lie among `xs`."""
    first, last = np.ceil(np.log10(linear)), np.floor(np.log10(np.abs(xs).max()))
    powers = 10.0 ** np.arange(last, first - 1, -max(1, (last - first) // TICKS))
    both_sides = np.concatenate([powers, -powers])
    inside = both_sides[(both_sides >= xs.min()) & (both_sides <= xs.max())]
    return sorted([0.0, *inside])


def _tick(value: float, _: Any) -> str:
    return plain(value)
