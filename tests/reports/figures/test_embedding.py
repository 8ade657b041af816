"""Embeddings: a panel for each model, the same colours for the same classes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.embedding import CLASS_COLOURS, draw_embeddings
from reports.figures.inputs import embedding, several_models, size, words


def test_ten_classes_have_ten_colours() -> None:
    assert len(set(CLASS_COLOURS)) == 10


def test_a_class_has_the_same_colour_in_all_panels(figures: list[Any]) -> None:
    whole = embedding()
    some = whole.classes >= 4
    part = replace(whole, label="part", places=whole.places[some], classes=whole.classes[some])
    draw_embeddings([whole, part], [])
    for axes, shown in zip(figures[0].axes, (whole, part), strict=True):
        colours = [to_hex(colour).upper() for colour in axes.collections[0].get_facecolor()]
        assert colours == [CLASS_COLOURS[number].upper() for number in shown.classes]


def test_axes_have_no_ticks(figures: list[Any]) -> None:
    draw_embeddings([embedding()], [])
    assert not len(figures[0].axes[0].get_xticks()) and not len(figures[0].axes[0].get_yticks())


@pytest.mark.parametrize("classes", [11, 100])
def test_more_classes_have_a_bar_instead_of_a_legend(classes: int, tmp_path: Path, figures: list[Any]) -> None:
    draw_embeddings([embedding(classes=classes), embedding("b", classes)], [tmp_path / "a.svg"])
    assert not figures[0].legends and len(figures[0].axes) == 3
    assert "class" in words(tmp_path / "a.svg")
    colours = np.unique(figures[0].axes[0].collections[0].get_facecolor(), axis=0)
    assert len(colours) == classes


def test_what_is_not_finite_is_left_out(figures: list[Any]) -> None:
    odd = embedding()
    odd.places[:5] = np.nan
    draw_embeddings([odd], [])
    assert len(figures[0].axes[0].collections[0].get_offsets()) == 195


@pytest.mark.parametrize("count", [3, 4])
def test_any_number_of_models(count: int, tmp_path: Path) -> None:
    draw_embeddings([embedding(f"model {k}") for k in range(count)], [tmp_path / "a.png"])
    assert size(tmp_path / "a.png")


def test_one_example_and_none(tmp_path: Path) -> None:
    draw_embeddings(
        [embedding(count=1), replace(embedding(), places=np.empty((0, 2)), classes=np.empty(0, int))],
        [tmp_path / "a.png"],
    )
    assert size(tmp_path / "a.png")


def test_each_model_of_a_map_has_a_mark_of_its_own(tmp_path: Path, figures: list[Any]) -> None:
    draw_embeddings([several_models()], [tmp_path / "a.svg"])
    drawn = figures[0].axes[0].collections
    assert [len(one.get_offsets()) for one in drawn] == [60, 60]
    marks = [one.get_paths()[0].vertices for one in drawn]
    assert marks[0].shape != marks[1].shape
    assert [to_hex(c) for c in drawn[0].get_facecolor()] == [to_hex(c) for c in drawn[1].get_facecolor()]
    assert not figures[0].axes[0].texts, "a class has a place for each model, so none for its number"


def test_other_clients_in_each_map_are_counted(tmp_path: Path) -> None:
    draw_embeddings([several_models(), several_models("b", ("global model", "client 5"))], [tmp_path / "a.svg"])
    said = words(tmp_path / "a.svg")
    assert "client no. 1" in said and "client 3" not in said


def test_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_embeddings([], [tmp_path / "a.png"])
