"""The loss along lines: a panel for each data set, on one scale, with models and barriers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.lines import draw_lines
from reports.figures.inputs import line, size, words


def test_panels_share_a_scale_that_holds_all(figures: list[Any]) -> None:
    draw_lines([line()], [])
    panels = figures[0].axes
    assert [axes.get_title() for axes in panels] == ["train", "test"]
    assert len({axes.get_ylim() for axes in panels}) == 1
    low, high = panels[0].get_ylim()
    assert low < 0.3 and high > 2.1


def test_a_data_set_that_only_one_line_has(figures: list[Any]) -> None:
    other = line("fedsam → fedgloss")
    draw_lines([line(), replace(other, losses={"test": other.losses["test"]}, barriers={})], [])
    assert len(figures[0].axes) == 2


def test_the_arrow_spans_the_barrier(tmp_path: Path, figures: list[Any]) -> None:
    draw_lines([line(height=1.4)], [tmp_path / "a.svg"])
    axes = figures[0].axes[0]
    (arrow,) = [text for text in axes.texts if not text.get_text()]
    assert arrow.xy[1] - arrow.xyann[1] == pytest.approx(1.4, abs=0.02)
    assert arrow.xy[0] == pytest.approx(0.5, abs=0.01)
    assert "barrier 1.4" in words(tmp_path / "a.svg")


@pytest.mark.parametrize("barrier", [0.0, -0.2])
def test_no_arrow_without_a_barrier_but_its_number(barrier: float, tmp_path: Path, figures: list[Any]) -> None:
    flat = line()
    losses = {"train": np.full_like(flat.xs, 0.5)}
    draw_lines([replace(flat, losses=losses, barriers={"train": barrier})], [tmp_path / "a.svg"])
    assert not [text for text in figures[0].axes[0].texts if not text.get_text()]
    assert f"barrier {barrier:g}" in words(tmp_path / "a.svg")


def test_models_are_dots_on_the_curve(figures: list[Any]) -> None:
    draw_lines([line()], [])
    dots = [part.get_data() for part in figures[0].axes[0].lines if part.get_marker() == "o"]
    assert [float(x[0]) for x, _ in dots] == [0.0, 1.0]
    assert [float(y[0]) for _, y in dots] == pytest.approx(list(line().losses["train"][[10, 30]]))


def test_a_model_outside_is_said_to_be(tmp_path: Path) -> None:
    draw_lines([replace(line(), marks={"far": 9.0})], [tmp_path / "a.svg"])
    assert "far (outside)" in words(tmp_path / "a.svg")


def test_a_model_on_several_lines_is_named_once(tmp_path: Path) -> None:
    lines = [replace(line(), label=f"line {k}", marks={"centre": 0.0}, barriers={}) for k in range(3)]
    draw_lines([replace(one, losses={"train": one.losses["train"]}) for one in lines], [tmp_path / "a.svg"])
    assert words(tmp_path / "a.svg").count("centre") == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_a_gap(bad: float, figures: list[Any]) -> None:
    losses = line().losses["train"].copy()
    losses[10:13] = bad
    draw_lines([replace(line(), losses={"train": losses})], [])
    drawn = figures[0].axes[0].lines[0].get_ydata()
    assert np.isnan(drawn[10:13]).all() and np.isfinite(np.delete(drawn, [10, 11, 12])).all()


def test_a_line_with_nothing_finite(tmp_path: Path) -> None:
    draw_lines([replace(line(), losses={"train": np.full(41, np.nan)})], [tmp_path / "a.png"])
    assert size(tmp_path / "a.png")


def test_a_wide_range_has_a_logarithmic_scale_and_says_so(tmp_path: Path) -> None:
    draw_lines([replace(line(), losses={"train": np.exp(5 * line().losses["train"])})], [tmp_path / "a.svg"])
    assert "loss (log scale)" in words(tmp_path / "a.svg")


def test_no_line_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_lines([], [tmp_path / "a.png"])
