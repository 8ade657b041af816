"""Numbers of clients over rounds: their lines, mean and quartiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flatfed.reports.figures.trends import draw_client_trends
from reports.figures.inputs import size, words

VALUES = {0: [1.0, 2.0, None], 1: [3.0, None, None], 2: [5.0, 4.0, math.nan], 3: [None, None, None]}


def test_the_mean_is_over_those_that_have_a_number(figures: list[Any]) -> None:
    draw_client_trends([0, 5, 10], VALUES, [], "sharpness")
    mean = max(figures[0].axes[0].lines, key=lambda line: line.get_linewidth())
    assert list(mean.get_xdata()) == [0, 5] and list(mean.get_ydata()) == [3.0, 3.0]


def test_a_line_leaps_over_rounds_without_a_number(figures: list[Any]) -> None:
    draw_client_trends([0, 5, 10], {7: [1.0, None, 2.0]}, [], "sharpness")
    thin = min(figures[0].axes[0].lines, key=lambda line: line.get_linewidth())
    assert list(thin.get_xdata()) == [0, 10] and list(thin.get_ydata()) == [1.0, 2.0]


def test_the_band_lies_between_the_quartiles(figures: list[Any]) -> None:
    values = {client: [float(client), 2.0 * client] for client in range(9)}
    draw_client_trends([1, 2], values, [], "sharpness")
    (band,) = figures[0].axes[0].collections
    corners = band.get_paths()[0].vertices
    assert {tuple(corner) for corner in corners} >= {(1.0, 2.0), (1.0, 6.0), (2.0, 4.0), (2.0, 12.0)}


def test_a_wide_axis_is_logarithmic_and_says_so(tmp_path: Path) -> None:
    draw_client_trends([0, 1], {0: [1.0, 1000.0]}, [tmp_path / "a.svg"], "sharpness", mean_name="of all")
    assert "sharpness (log scale)" in words(tmp_path / "a.svg")
    assert "of all" in words(tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("rounds", "values"),
    [([], {}), ([0, 1], {}), ([3], {0: [1.0], 1: [None]}), ([0, 1], {0: [None, None]}), ([0, 1], {0: [2.0, 2.0]})],
)
def test_little_to_draw_is_no_error(
    rounds: Sequence[int], values: Mapping[int, Sequence[float | None]], tmp_path: Path
) -> None:
    draw_client_trends(rounds, values, [tmp_path / "a.png"], "sharpness")
    assert size(tmp_path / "a.png")


def test_rounds_are_whole_numbers(figures: list[Any]) -> None:
    draw_client_trends([3], {0: [1.0]}, [], "sharpness")
    ticks = figures[0].axes[0].get_xticks()
    assert np.array_equal(ticks, np.round(ticks))
