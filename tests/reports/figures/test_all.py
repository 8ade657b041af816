"""What holds for every figure: files, words, sizes, and that nothing is written over or beyond anything else."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.image
import matplotlib.pyplot as plt
import pytest
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.text import Text

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.drawing.style import COLUMN, PAGE
from flatfed.reports.figures.drawing.writing import DPI
from reports.figures.cases import CASES, NAMES
from reports.figures.inputs import NOTE, size, words

WITHOUT_NOTE = {"parameter lines", "scatter", "trends", "corruptions", "corruptions and severities"}
TITLE = "What is flat & what is not"


@dataclass
class Drawn:
    """A case, its files, and the texts of its PNG with their places in pixels."""

    name: str
    png: Path
    svg: Path
    texts: dict[Text, Any] = field(default_factory=dict)


@pytest.fixture(scope="module", params=list(CASES))
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    folder = tmp_path_factory.mktemp("figure")
    actual = Drawn(request.param, folder / "a.png", folder / "a.svg")
    draw = Text.draw

    def spy(text: Text, renderer: Any) -> None:
        draw(text, renderer)
        if isinstance(renderer, RendererAgg) and renderer.dpi == DPI and text.get_visible() and text.get_text().strip():
            actual.texts[text] = Text.get_window_extent(text, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", spy)
        CASES[request.param]([actual.png, actual.svg], TITLE)
    return actual


def test_the_png_is_a_picture_of_a_papers_width(drawn: Drawn) -> None:
    width, height = size(drawn.png)
    assert width in (DPI * COLUMN, DPI * PAGE)
    assert 0.3 * width < height < 2 * width
    pixels = matplotlib.image.imread(drawn.png)[..., :3]
    assert pixels.min() < 0.3 and pixels.mean() > 0.5


def test_the_svg_says_what_is_drawn(drawn: Drawn) -> None:
    said = words(drawn.svg)
    missing = [text for text in [TITLE, *NAMES[drawn.name]] if text not in said]
    assert not missing, said
    assert (NOTE in said) == (drawn.name not in WITHOUT_NOTE)


def test_texts_lie_inside_the_figure(drawn: Drawn) -> None:
    width, height = size(drawn.png)
    assert len(drawn.texts) > 5
    boxes = {text.get_text(): box.extents for text, box in drawn.texts.items()}
    assert not {text for text, (x, y, _, _) in boxes.items() if x < -1 or y < -1}
    assert not {text for text, (_, _, x, y) in boxes.items() if x > width + 1 or y > height + 1}


def test_texts_lie_off_each_other(drawn: Drawn) -> None:
    straight = [(text, box.padded(-2)) for text, box in drawn.texts.items() if text.get_rotation() % 90 == 0]
    over = [(a.get_text(), b.get_text()) for (a, one), (b, other) in combinations(straight, 2) if one.overlaps(other)]
    assert not over


def test_no_type_is_smaller_than_seven_points(drawn: Drawn) -> None:
    assert min(text.get_fontsize() for text in drawn.texts) >= 7


def test_the_same_figure_is_the_same_file_whatever_the_callers_settings(drawn: Drawn, tmp_path: Path) -> None:
    with mpl.rc_context({"font.size": 20, "axes.grid": True, "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        CASES[drawn.name]([tmp_path / "a.svg"], TITLE)
        assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []
    assert (tmp_path / "a.svg").read_bytes() == drawn.svg.read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_the_same_figure_is_the_same_pdf_with_fonts_that_journals_take(name: str, tmp_path: Path) -> None:
    files = [tmp_path / "a.pdf", tmp_path / "b.pdf"]
    for file in files:
        CASES[name]([file], TITLE)
    one, other = (file.read_bytes() for file in files)
    assert one.startswith(b"%PDF") and one == other
    assert b"/Type3" not in one


@pytest.mark.parametrize("name", CASES)
def test_without_the_library_the_error_says_what_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(ConfigError, match=r"figures need matplotlib; pip install 'flatfed\[plots\]'"):
        CASES[name]([tmp_path / "a.png"], "")
