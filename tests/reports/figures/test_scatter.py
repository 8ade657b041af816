"""One number against another: runs, their means, and names."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flatfed.reports.figures.scatter import draw_scatter
from reports.figures.inputs import LONG, size, words

RUNS = [("fedavg", 100.0, 70.0), ("fedavg", 120.0, 72.0), (LONG, 10.0, 80.0)]


def places(axes: Any) -> list[tuple[float, float]]:
    return [tuple(place) for part in axes.collections for place in part.get_offsets()]


def test_runs_and_their_mean(figures: list[Any]) -> None:
    draw_scatter(RUNS, [], "sharpness", "accuracy")
    assert set(places(figures[0].axes[0])) == {(100, 70), (120, 72), (110, 71), (10, 80)}


def test_a_label_is_written_once_beside_its_mean(tmp_path: Path, figures: list[Any]) -> None:
    draw_scatter(RUNS, [tmp_path / "a.svg"], "sharpness", "accuracy")
    named = {text.get_text().replace("\n", " "): text.xy for text in figures[0].axes[0].texts if hasattr(text, "xy")}
    assert named["fedavg"] == (110.0, 71.0) and named[LONG] == (10.0, 80.0)
    assert words(tmp_path / "a.svg").count("fedavg") == 1


def test_a_wide_axis_is_logarithmic_and_says_so(tmp_path: Path, figures: list[Any]) -> None:
    draw_scatter([("a", 1.0, 3.0), ("a", 100.0, 5.0), ("b", 500.0, 1.0)], [tmp_path / "a.svg"], "sharpness", "accuracy")
    assert figures[0].axes[0].get_xscale() == "log"
    assert "sharpness (log scale)" in words(tmp_path / "a.svg")
    assert any(np.allclose(place, (10, 4)) for place in places(figures[0].axes[0]))  # the mean of the logarithms


def test_what_is_not_finite_is_left_out(tmp_path: Path, figures: list[Any]) -> None:
    draw_scatter([*RUNS, ("bad", math.nan, 3.0), ("worse", 3.0, math.inf)], [tmp_path / "a.svg"], "x", "y")
    assert len(places(figures[0].axes[0])) == 4
    assert "bad" not in words(tmp_path / "a.svg")


@pytest.mark.parametrize("points", [[], [("a", 1.0, 1.0)], [("a", 1.0, 1.0), ("b", 1.0, 1.0)]])
def test_little_to_draw_is_no_error(points: list[tuple[str, float, float]], tmp_path: Path) -> None:
    draw_scatter(points, [tmp_path / "a.png"], "x", "y")
    assert size(tmp_path / "a.png")


def test_many_labels_go_into_a_legend_with_looks_of_their_own(tmp_path: Path, figures: list[Any]) -> None:
    draw_scatter([(f"method {k}", 10.0 + k, 70.0 + k) for k in range(30)], [tmp_path / "a.svg"], "x", "y")
    assert all(f"method {k}" in words(tmp_path / "a.svg") for k in range(30))
    (legend,) = figures[0].legends
    looks = {(handle.get_marker(), handle.get_color()) for handle in legend.legend_handles}
    assert len(looks) == 30
