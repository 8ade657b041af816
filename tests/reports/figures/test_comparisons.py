"""Figures that compare methods: axes, marks, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.comparisons.forest import ForestRow, draw_forest
from flatfed.reports.figures.comparisons.parameter_lines import ParameterLine, draw_parameter_lines, is_log_range
from flatfed.reports.figures.comparisons.rank_plot import RankedMethods, draw_ranks
from flatfed.reports.figures.drawing.style import COLUMN
from flatfed.reports.figures.drawing.writing import DPI
from reports.figures.inputs import size, words


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.01, 0.1, 1), True),
        ((0.01, 0.05, 0.1, 0.5), True),
        ((0.001, 0.01), True),
        ((0.1, 0.2), False),
        ((1, 2, 3, 4), False),
        ((0, 0.1, 1), False),
        ((-1, 1, 10), False),
        ((0.1,), False),
        ((), False),
    ],
)
def test_log_ranges(values: tuple[float, ...], expected: bool) -> None:
    assert is_log_range(values) == expected


def test_a_linear_parameter_with_one_seed_has_neither_log_scale_nor_band(tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    draw_parameter_lines([ParameterLine("fedsam", {1: [3.0], 2: [4.0], 3: [3.5]})], [file], "epochs", "loss")
    said = words(file)
    assert "log scale" not in said and "band" not in said
    assert "epochs" in said


def test_wide_values_have_a_log_scale(tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    draw_parameter_lines([ParameterLine("fedsam", {0.1: [3.0], 1: [4000.0]})], [file], "ρ", "largest eigenvalue")
    assert "largest eigenvalue (log scale)" in words(file)


def test_all_seeds_may_have_diverged(tmp_path: Path) -> None:
    nan = float("nan")
    draw_parameter_lines([ParameterLine("fedsam", {0.1: [nan], 1: [nan, nan]})], [tmp_path / "a.png"], "ρ", "loss")
    assert size(tmp_path / "a.png")[0] == DPI * COLUMN


def test_more_rows_make_a_taller_forest(tmp_path: Path) -> None:
    rows = [ForestRow("", f"method {n}", n, n - 1, n + 1, True, "difference") for n in range(12)]
    draw_forest(rows[:3], [tmp_path / "few.png"])
    draw_forest(rows, [tmp_path / "many.png"])
    few, many = size(tmp_path / "few.png"), size(tmp_path / "many.png")
    assert few[0] == many[0]
    assert many[1] > few[1] + 200


def test_one_method_alone_is_ranked(tmp_path: Path) -> None:
    draw_ranks(RankedMethods({"fedavg": 1.0}), [tmp_path / "a.svg"])
    assert "fedavg 1.00" in words(tmp_path / "a.svg")


def test_nothing_is_not_drawn(tmp_path: Path) -> None:
    files = [tmp_path / "a.png"]
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_forest([], files)
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_parameter_lines([ParameterLine("a", {})], files, "x", "y")
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_ranks(RankedMethods({}), files)
