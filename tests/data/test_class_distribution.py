"""The figure of a partition."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.class_distribution import _shades, draw_class_distribution

SHAPES = [(100, 10), (100, 100), (500, 100), (4, 3), (1, 1), (3500, 62)]


def table_of(clients: int, classes: int) -> np.ndarray:
    return np.random.default_rng(0).poisson(0.5, (clients, classes)) * 5 + np.eye(clients, classes, dtype=np.int64)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_number_of_clients_and_classes(shape: tuple[int, int], tmp_path: Path) -> None:
    draw_class_distribution(table_of(*shape), [tmp_path / "a.png"], "title")
    height, width = matplotlib.image.imread(tmp_path / "a.png").shape[:2]
    assert 500 < height <= width <= 2200


def test_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plt.rcParams, "svg.fonttype", "none")
    draw_class_distribution(table_of(20, 4), [tmp_path / "a.svg"], "digits: iid")
    svg = (tmp_path / "a.svg").read_text()
    ElementTree.fromstring(svg)
    words = re.findall(r">([^<>\n]+)</text>", svg)
    assert {"client", "class", "samples", "samples of the class", "digits: iid"} <= set(words)


def test_empty_cells_are_white_and_fuller_ones_darker(tmp_path: Path) -> None:
    """One sample differs from none, and lightness falls with the number: no colour vision is needed."""
    shades = _shades()
    lightness = [float(np.dot(shades(x)[:3], [0.299, 0.587, 0.114])) for x in np.linspace(0, 1, 20)]
    assert lightness == sorted(lightness, reverse=True)
    assert lightness[0] < 0.92
    draw_class_distribution(np.zeros((5, 5), dtype=np.int64) + np.eye(5, dtype=np.int64), [tmp_path / "a.png"])
    pixels = matplotlib.image.imread(tmp_path / "a.png")[..., :3]
    assert (pixels.min(axis=2) == 1.0).mean() > 0.4


def test_no_global_figure_is_left_open(tmp_path: Path) -> None:
    before = plt.get_fignums()
    draw_class_distribution(table_of(5, 5), [tmp_path / "a.png", tmp_path / "a.svg"])
    assert plt.get_fignums() == before


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatfed.reports.figures.drawing.style.available", lambda: False)
    with pytest.raises(ConfigError, match="pip install 'flatfed\\[plots\\]'"):
        draw_class_distribution(table_of(5, 5), [tmp_path / "a.png"])
