"""Names beside points: off each other, off what is drawn, and inside."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from flatfed.reports.figures.drawing.placing import Tag, place_tags
from flatfed.reports.figures.drawing.style import new_figure


@pytest.fixture
def axes() -> Any:
    figure = new_figure(3.4, 2.6)
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(0, 10))
    figure.draw_without_rendering()
    return axes


def boxes(axes: Any) -> list[Any]:
    return [text.get_window_extent(axes.figure.canvas.get_renderer()) for text in axes.texts]


def written(axes: Any) -> list[Any]:
    """Return the boxes of the names alone, without the lines that lead to them."""
    from matplotlib.text import Text

    return [Text.get_window_extent(text, axes.figure.canvas.get_renderer()) for text in axes.texts]


def test_names_of_neighbours_do_not_overlap(axes: Any) -> None:
    place_tags(axes, [Tag(f"model number {k}", 5 + 0.2 * k, 5 + 0.1 * k) for k in range(5)])
    assert not [pair for pair in combinations(written(axes), 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("place", [(0, 0), (10, 10), (0, 10), (10, 5)])
def test_a_name_at_the_edge_stays_inside(place: tuple[float, float], axes: Any) -> None:
    place_tags(axes, [Tag("a rather long name", *place)])
    (box,) = written(axes)
    assert axes.bbox.padded(1).contains(box.x0, box.y0) and axes.bbox.padded(1).contains(box.x1, box.y1)


def test_a_name_keeps_off_boxes_and_curves(axes: Any) -> None:
    x, y = axes.transData.transform((5, 5))
    curve = np.stack([np.linspace(x - 80, x + 80, 200), np.full(200, y - 14)], axis=1)
    place_tags(axes, [Tag("name", 5, 5)], [(x - 80, y + 5, x + 80, y + 30)], curve)
    (box,) = written(axes)
    assert box.y1 < y + 5 or box.y0 > y + 30
    assert not ((curve[:, 0] > box.x0) & (curve[:, 0] < box.x1) & (curve[0, 1] > box.y0) & (curve[0, 1] < box.y1)).any()


def test_no_line_to_a_name_crosses_another_name(axes: Any) -> None:
    place_tags(axes, [Tag(f"method {k}", 5 + 0.15 * (k % 3), 5 + 0.15 * (k // 3)) for k in range(6)])
    names = written(axes)
    for own, text in enumerate(axes.texts):
        if text.arrow_patch.get_visible():
            start = axes.transData.transform(text.xy)
            middle = [(names[own].x0 + names[own].x1) / 2, (names[own].y0 + names[own].y1) / 2]
            line = np.linspace(start, middle, 100)
            crossed = [k for k, box in enumerate(names) if k != own and any(box.contains(x, y) for x, y in line)]
            assert not crossed
