"""Contours: the same levels in all panels, blanks, and models where they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.text import Text

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.contours import draw_contours
from flatfed.reports.figures.drawing.scales import round_levels
from flatfed.reports.figures.drawing.writing import DPI
from reports.figures.inputs import LONG, bowl, plane, size, words


def filled(figure: Any) -> list[Any]:
    """Return the bands of each panel."""
    return [axes.collections[0] for axes in figure.axes if axes.collections and axes.get_xlabel() + axes.get_title()]


@pytest.mark.parametrize("count", [3, 4])
def test_levels_and_colours_are_shared(count: int, tmp_path: Path, figures: list[Any]) -> None:
    draw_contours([bowl(f"model {k}", 1.0 + 3 * k) for k in range(count)], [tmp_path / "a.svg"])
    bands = filled(figures[0])
    assert len(bands) == count
    for other in bands[1:]:
        assert np.array_equal(other.levels, bands[0].levels)
        assert np.array_equal(other.norm.boundaries, bands[0].norm.boundaries)
    assert all(f"model {k}" in words(tmp_path / "a.svg") for k in range(count))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("ends", [(0.1, 3.0), (0.03, 900.0), (1e-3, 1e-1), (1e-12, 1e30), (0.5, 0.51)])
def test_levels_hold_all_values_and_are_few(ends: tuple[float, float], log: bool) -> None:
    levels = round_levels(np.array(ends), log)
    assert levels[0] <= ends[0] and levels[-1] >= ends[1]
    assert 2 <= len(levels) <= 14
    assert (np.diff(levels) > 0).all()


def test_panels_may_have_levels_of_their_own(figures: list[Any]) -> None:
    pair = [bowl(), bowl("b", 90, 50)]
    draw_contours(pair, [])
    draw_contours(pair, [], shared=False)
    shared, apart = figures
    assert (len(shared.axes), len(apart.axes)) == (3, 4), "two panels, and one bar or two"
    low, high = (bar.get_ylim() for bar in apart.axes[2:])
    assert low[1] < high[0]


def test_the_error_is_in_percent(tmp_path: Path, figures: list[Any]) -> None:
    draw_contours([plane()], [tmp_path / "a.svg"], value="error")
    assert "error (%)" in words(tmp_path / "a.svg")
    assert filled(figures[0])[0].levels[-1] == pytest.approx(100)


def test_no_error_without_classes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fedavg: there are no classes"):
        draw_contours([replace(bowl(), errors=None)], [tmp_path / "a.png"], value="error")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_white(bad: float, tmp_path: Path, figures: list[Any]) -> None:
    grid = replace(bowl(), marks={})
    losses = grid.losses.copy()
    losses[2:6, 2:6] = bad
    draw_contours([replace(grid, losses=losses)], [tmp_path / "a.png"])
    pixels = matplotlib.image.imread(tmp_path / "a.png")[::-1, :, :3]
    axes = figures[0].axes[0]
    inside = axes.transData.transform([(-0.5, -0.5), (0.3, 0.3)]) * DPI / figures[0].dpi
    hole, ground = (pixels[int(y), int(x)] for x, y in inside)
    assert (hole == 1).all() and not (ground > 0.95).all()


def test_a_model_outside_is_said_to_be(tmp_path: Path) -> None:
    grid = replace(bowl(), marks={"near": (0.5, 0.5), "far": (7.0, 0.2), "gone": (-3.0, -3.0)})
    draw_contours([grid], [tmp_path / "a.svg"])
    said = words(tmp_path / "a.svg")
    assert "far (outside)" in said and "gone (outside)" in said and "near (outside)" not in said


def test_marks_are_where_the_models_are(figures: list[Any]) -> None:
    draw_contours([plane()], [])
    actual = {tuple(np.ravel(line.get_data())) for line in figures[0].axes[0].lines}
    assert actual == set(plane().marks.values())


@pytest.mark.parametrize("value", [0.7, 0.0, -1.0, np.nan])
def test_nothing_to_see_is_no_error(value: float, tmp_path: Path) -> None:
    draw_contours([replace(bowl(), losses=np.full((15, 15), value))], [tmp_path / "a.png"])
    assert size(tmp_path / "a.png")


@pytest.mark.parametrize("value", [0.7, np.nan])
def test_nothing_to_see_in_one_panel(value: float, figures: list[Any]) -> None:
    draw_contours([bowl(), replace(bowl(LONG), losses=np.full((15, 15), value))], [])
    assert len(filled(figures[0])) == (2 if value == 0.7 else 1)


def test_no_grid_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_contours([], [tmp_path / "a.png"])


def inside(frame: Any, box: Any) -> bool:
    return bool(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1)


@pytest.mark.parametrize(("tall", "name"), [(0.4, LONG), (0.6, LONG), (0.6, "fedgloss+sam"), (1.0, LONG), (2.5, LONG)])
def test_written_levels_and_names_stay_inside_the_frame(tall: float, name: str, figures: list[Any]) -> None:
    grid = plane()
    draw_contours([replace(grid, ys=tall * grid.ys, marks={"fedavg": (0.0, 0.0), name: (40.0, 0.0)})], [])
    axes = figures[0].axes[0]
    renderer = figures[0].canvas.get_renderer()
    texts = [text for text in axes.texts if text.get_visible()]
    assert len(texts) > 2
    outside = [text.get_text() for text in texts if not inside(axes.bbox, Text.get_window_extent(text, renderer))]
    assert not outside
    for label in (axes.xaxis.label, axes.yaxis.label):
        assert inside(figures[0].bbox, label.get_window_extent(renderer))
