"""Bars of methods under corruptions: their lengths, places and ranges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.corruptions import draw_corruptions
from reports.figures.cases import CORRUPTIONS, bars

TWO = {
    "fedavg": [{"clean": [80.0]}, {"fog": [40.0, 50.0], "snow": [30.0]}, {"mean": [37.5]}],
    "fedsam": [{"clean": [90.0]}, {"fog": [60.0, 62.0], "snow": []}, {"mean": [61.0]}],
}


def test_bars_are_means_and_lines_ranges_over_seeds(figures: list[Any]) -> None:
    draw_corruptions(TWO, [], "accuracy (%)")
    (axes,) = figures[0].axes
    first, second = ([round(bar.get_width(), 6) for bar in group] for group in axes.containers)
    assert (first, second) == ([80.0, 45.0, 30.0, 37.5], [90.0, 61.0, 61.0])  # none where there is no value
    spans = [[tuple(point[0] for point in path.vertices) for path in lines.get_paths()] for lines in axes.collections]
    assert spans == [[(40.0, 50.0)], [(60.0, 62.0)]]


def test_groups_do_not_overlap_and_methods_keep_their_order(figures: list[Any]) -> None:
    for count in (1, 2, 6, 12):
        draw_corruptions({f"m{n}": bars(n) for n in range(count)}, [], "accuracy (%)")
        for axes in figures[-1].axes:
            spans = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for g in axes.containers for bar in g)
            assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))
            firsts = [group[0].get_y() for group in axes.containers]
            assert firsts == sorted(firsts)


def test_many_corruptions_stand_in_two_panels_on_one_scale(figures: list[Any]) -> None:
    draw_corruptions({"fedavg": bars(0)}, [], "accuracy (%)")
    left, right = figures[0].axes
    names = [[label.get_text() for label in axes.get_yticklabels()] for axes in (left, right)]
    assert names[0] + names[1] == [name for section in CORRUPTIONS for name in section]
    assert left.get_xlim() == right.get_xlim() and left.get_xlim()[0] == 0
    assert left.get_ylim() == right.get_ylim()


def test_severities_are_lines_below(figures: list[Any]) -> None:
    trends = {"fedavg": {"clean": [80.0], "1": [70.0, 72.0]}, "fedsam": {"clean": [90.0], "1": []}}
    draw_corruptions(TWO, [], "accuracy (%), severity 5", trends=trends)
    axes = figures[0].axes[-1]
    assert [list(line.get_ydata()) for line in axes.lines] == [[80.0, 71.0], [90.0]]
    assert axes.get_ylabel() == "accuracy (%), mean"


def test_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_corruptions({}, [], "accuracy (%)")
