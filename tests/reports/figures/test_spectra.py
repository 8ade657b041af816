"""Spectra: bars with residuals on one scale, and a density that is one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flatfed.core.errors import ConfigError
from flatfed.flatness.drawable import Spectrum
from flatfed.reports.figures.densities import _density, _places, _width
from flatfed.reports.figures.spectra import draw_spectra
from reports.figures.inputs import LONG, NOTHING, size, spectrum, words


def heights(axes: Any) -> list[float]:
    return [bar.get_height() for bar in axes.patches]


def test_bars_are_the_eigenvalues(figures: list[Any]) -> None:
    both = [spectrum(dense=False), spectrum(LONG, 20.0, dense=False)]
    draw_spectra(both, [])
    (axes,) = figures[0].axes
    assert heights(axes) == pytest.approx([*both[0].values, *both[1].values])


def test_bars_of_a_rank_stand_side_by_side(figures: list[Any]) -> None:
    draw_spectra([spectrum(name, dense=False) for name in "abc"], [])
    bars = sorted(figures[0].axes[0].patches, key=lambda bar: bar.get_x())
    assert all(left.get_x() + left.get_width() <= right.get_x() + 1e-9 for left, right in pairwise(bars))


def test_error_bars_are_the_residuals(figures: list[Any]) -> None:
    draw_spectra([spectrum(dense=False)], [])
    lines = figures[0].axes[0].collections[0].get_segments()
    assert [(top[1] - low[1]) / 2 for low, top in lines] == pytest.approx(list(spectrum().residuals))


def test_fifty_at_most(figures: list[Any]) -> None:
    draw_spectra([spectrum(count=80, dense=False)], [])
    assert len(figures[0].axes[0].patches) == 50


@pytest.mark.parametrize(("count", "panels"), [(3, 1), (5, 5)])
def test_many_methods_have_panels_on_one_scale(count: int, panels: int, tmp_path: Path, figures: list[Any]) -> None:
    draw_spectra([spectrum(f"method {k}", 10.0 * (k + 1), dense=False) for k in range(count)], [tmp_path / "a.svg"])
    assert len(figures[0].axes) == panels
    assert len({axes.get_ylim() for axes in figures[0].axes}) == 1
    assert all(f"method {k}" in words(tmp_path / "a.svg") for k in range(count))


@pytest.mark.parametrize(("last", "scale"), [(0.5, "log"), (2.0, "linear"), (0.0, "linear"), (-0.5, "linear")])
def test_logarithmic_where_wide_and_positive(last: float, scale: str, tmp_path: Path, figures: list[Any]) -> None:
    values = np.array([100.0, 10.0, last])
    draw_spectra([Spectrum("a", values, 0.1 * np.abs(values), NOTHING, NOTHING)], [tmp_path / "a.svg"])
    assert figures[0].axes[0].get_yscale() == scale
    assert ("eigenvalue (log scale)" in words(tmp_path / "a.svg")) == (scale == "log")


def test_negative_eigenvalues_hang_below_zero(figures: list[Any]) -> None:
    draw_spectra([Spectrum("a", np.array([3.0, -2.0]), np.array([0.1, 0.1]), NOTHING, NOTHING)], [])
    assert heights(figures[0].axes[0]) == [3.0, -2.0]
    assert figures[0].axes[0].get_ylim()[0] < -2


def test_the_density_of_one_method_only(figures: list[Any]) -> None:
    draw_spectra([spectrum(dense=False), spectrum(LONG)], [])
    density = figures[0].axes[1]
    assert density.get_xscale() == "symlog" and density.get_yscale() == "log"
    assert len(density.lines) == 1


def test_no_density_no_panel_and_no_word_of_it(tmp_path: Path, figures: list[Any]) -> None:
    draw_spectra([spectrum(dense=False)], [tmp_path / "a.svg"])
    assert len(figures[0].axes) == 1
    assert "density" not in words(tmp_path / "a.svg")


def test_the_density_integrates_to_one() -> None:
    rule = spectrum()
    width = _width(rule.points)
    places = _places(rule.points, width, width)
    assert np.trapezoid(_density(places, rule.points, rule.weights, width), places) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("points", [[1.0], [0.0], [-3.0, -3.0], [-5.0, 2.0]])
def test_densities_at_the_edge(points: list[float], tmp_path: Path) -> None:
    weights = np.full(len(points), 1 / len(points))
    draw_spectra([Spectrum("a", np.array([1.0]), np.array([0.0]), np.array(points), weights)], [tmp_path / "a.png"])
    assert size(tmp_path / "a.png")


def test_what_is_not_finite_is_left_out(figures: list[Any]) -> None:
    odd = replace(spectrum(), values=np.array([np.nan, 3.0, 2.0]), residuals=np.array([0.1, np.nan, 0.1]))
    odd.points[3] = np.inf
    draw_spectra([odd], [])
    assert heights(figures[0].axes[0]) == [3.0, 2.0]
    assert [round(bar.get_x() + bar.get_width() / 2) for bar in figures[0].axes[0].patches] == [2, 3]


def test_no_spectrum_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_spectra([], [tmp_path / "a.png"])
