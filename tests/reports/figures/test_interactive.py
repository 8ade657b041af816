"""The page: whole in itself, well formed, with all surfaces in it."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from flatfed.core.errors import ConfigError
from flatfed.reports.figures.interactive import write_surface_page
from reports.figures.inputs import LONG, NOTE, bowl

pytest.importorskip("plotly")
REFERENCES = {"src", "href", "srcset", "action", "data", "poster", "formaction"}
ALONE = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects what a page refers to, its title and language, and tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.titles: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.references += [f"{tag} {name}={value}" for name, value in attrs if name in REFERENCES]
        self.attributes.setdefault(tag, dict(attrs))
        if tag not in ALONE:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "title":
            self.titles.append(data)
        if self._open and self._open[-1] not in ("script", "style"):
            self.text += data


def own_script(text: str) -> str:
    """Return the script that draws, without the library."""
    return re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)[-1]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("page") / "a.html"
    write_surface_page([bowl(LONG, 0.9), bowl("<b>sharp</b>")], file, "Loss <around> & about")
    return file.read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_named(text: str) -> None:
    assert text.startswith("<!DOCTYPE html>")
    page = Page(text)
    assert page.titles == ["Loss <around> & about"]
    assert page.attributes["html"]["lang"] == "en"
    assert NOTE in page.text


def test_the_page_asks_the_network_for_nothing(text: str) -> None:
    page = Page(text)
    assert page.references == []
    assert "http" not in own_script(text)
    assert "Content-Security-Policy\" content=\"default-src 'none'; " in text
    assert not re.search(r"@import|url\(\s*['\"]?https?:", text.split("<script")[0])


def test_all_surfaces_are_in_it(text: str) -> None:
    script = own_script(text)
    traces, _ = json.JSONDecoder().raw_decode(script[script.index("[", script.index("Plotly.newPlot")) :])
    assert [(trace["type"], trace["legendgroup"], trace["showlegend"]) for trace in traces] == [
        ("surface", "0", True),
        ("surface", "1", False),
        ("scatter3d", "1", True),
    ]
    assert traces[0]["opacity"] == 1 and traces[1]["opacity"] < 0.5
    assert f"{LONG}: loss 0.4 at the centre" in script
    assert "direction 1 (filter-normalised)" in script and "direction 2 (filter-normalised)" in script
    assert "loss %{z:.4g}" in script


def test_a_label_is_text_and_not_markup(text: str) -> None:
    assert "<b>" not in own_script(text).replace("\\u003c", "<")


def test_the_same_surfaces_are_the_same_page(text: str, tmp_path: Path) -> None:
    write_surface_page([bowl(LONG, 0.9), bowl("<b>sharp</b>")], tmp_path / "a.html", "Loss <around> & about")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == text


def test_a_wide_range_has_a_logarithmic_scale(tmp_path: Path) -> None:
    losses = bowl().losses * np.where(bowl().losses > 5, 1000, 1)
    losses[0, 0], losses[0, 1] = np.nan, np.inf
    write_surface_page([replace(bowl(), losses=losses)], tmp_path / "a.html")
    script = own_script((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "loss (log scale)" in script and '"type":"log"' in script


def test_without_the_library_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(ConfigError, match=r"interactive figures need plotly; pip install 'flatfed\[plots\]'"):
        write_surface_page([bowl()], tmp_path / "a.html")


def test_no_grid_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        write_surface_page([], tmp_path / "a.html")
