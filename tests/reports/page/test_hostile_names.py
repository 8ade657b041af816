"""Names and settings that are markup, scripts or turn the direction of writing are shown, and do nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flatfed.reports.page.client_view import ClassTable
from flatfed.reports.page.gather import ViewSource, gather
from flatfed.reports.page.write import page_text, script_json
from flatfed.reports.results.results import collect
from reports.disk import write_run

pytest.importorskip("plotly")
pytest.importorskip("jinja2")

HOSTILE = [
    "</script><script>window.pwned=1</script>",
    "<!--<script>",
    "\"'><img src=x onerror=window.pwned=1>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; <b>bold</b> %{y}",
    "\u202egnp.exe\u202c \u2028 \x1b[31m",
    "javascript:window.pwned=1",
]


class Elements(HTMLParser):
    """Counts elements, and keeps the texts of scripts and of everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts and self.rawdata:
            self.scripts[-1] += data
        else:
            self.texts.append(data)


def hostile_page(folder: Path, text: str) -> str:
    """Return a page with a text in every place that others can write to."""
    (result,) = collect([write_run(folder / "run", status="diverged", reason=text)])
    rejected = [{"client": 0, "reason": text}]
    runs = [replace(run, rows=[row | {"rejected": rejected} for row in run.rows]) for run in result.runs]
    other = replace(result, method="plain")
    results = [replace(result, method=text, runs=runs), other]
    classes = ClassTable([[1, 2], [3, 4]], [text, "dog"], 0)
    flatness = folder / "run" / "flatness"
    flatness.mkdir()
    grid = {"label": text, "xs": [0, 1], "ys": [0, 1], "losses": [[1, 2], [3, 4]], "x_name": text, "note": text}
    (flatness / "surface.json").write_text(json.dumps({"grids": [grid], "lines": []}))
    view = ViewSource(text, results, text, class_table=classes, again=[(text, text)])
    return page_text(gather(text, [view, view]))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_a_text_wherever_it_stands(text: str, tmp_path: Path) -> None:
    page = hostile_page(tmp_path, text)
    parsed, plain = Elements(), Elements()
    parsed.feed(page)
    plain.feed(hostile_page(tmp_path / "plain", "a plain name"))
    assert parsed.tags == plain.tags
    assert {name for name in parsed.attributes if name.startswith("on")} == set()
    assert parsed.tags.count("script") == 3
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page.partition("<script>")[0])
    drawn = json.loads(parsed.scripts[0])["views"][0]
    assert drawn["name"] == drawn["curves"]["methods"][0]["method"] == drawn["clients"]["classes"]["classes"][0]


@pytest.mark.parametrize("text", HOSTILE)
def test_json_in_a_script_never_ends_it_and_says_the_same(text: str) -> None:
    written = script_json({text: [text]})
    assert not set(written) & set("<>&\u2028\u2029")
    assert json.loads(written) == {text: [text]}


def test_no_number_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_only_the_pages_own_scripts_may_run_and_nothing_is_asked_for(tmp_path: Path) -> None:
    page = hostile_page(tmp_path, "name")
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "script-src" in policy[1]
    scripts = policy[1].partition("script-src")[2].partition(";")[0]
    assert "unsafe-inline" not in scripts
    own = page.partition("<script>")[0]
    assert not re.search(r'(?:src|href)="(?!#)', own)
