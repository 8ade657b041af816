"""`flatfed report`: runs, comparisons and folders as one page; mistakes are one sentence."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command import COMPARED, flatfed, refused
from flatfed.cli.page.pages import comparison_page
from flatfed.reports.results.results import collect
from records import rewrite
from reports.disk import write_run

pytest.importorskip("plotly")
pytest.importorskip("jinja2")


def data_of(page: Path) -> dict[str, Any]:
    """Return what the script of a page draws."""
    found = re.search('<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_comparison_has_its_page_beside_the_report(comparison: Path) -> None:
    (view,) = data_of(comparison / "report.html")["views"]
    assert tuple(method["method"] for method in view["curves"]["methods"]) == COMPARED
    assert len(view["clients"]["classes"]["counts"]) == 5


def test_the_page_again_is_the_same_file(comparison: Path) -> None:
    done = flatfed("report", comparison)
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("written: report.html\n")
    flatfed("report", comparison, "--out", "again.html")
    assert Path("again.html").read_bytes() == Path("report.html").read_bytes()


def test_runs_and_a_comparison_share_a_table(run: Path, comparison: Path) -> None:
    assert flatfed("report", run, comparison / "fedavg" / "seed-0").code == 0
    (view,) = data_of(Path("report.html"))["views"]
    assert len(view["curves"]["methods"]) == 2


def test_targets_and_baseline_are_those_of_show(comparison: Path) -> None:
    assert flatfed("report", comparison, "--target", "1%", "--baseline", "fedavg", "--at", "2").code == 0
    text = Path("report.html").read_text(encoding="utf-8")
    assert "Cost to reach test accuracy 1.00 %" in text
    assert "points over fedavg" in text
    assert "at 2" in text


def test_code_that_a_run_names_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap_of_a_page.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = write_run(tmp_path / "run")
    config = json.loads((path / "config.json").read_text())
    config["task"] |= {"dataset": "trap_of_a_page:load", "model": "trap_of_a_page:Net"}
    rewrite(path / "config.json", config)
    done = flatfed("report", path)
    assert done.code == 0, done.err
    assert "trap_of_a_page" not in sys.modules
    assert data_of(Path("report.html"))["views"][0]["clients"]["classes"] is None


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("missing",), ("missing",)),
        (("{empty}",), ("empty",)),
        (("{run}", "--out", "page.pdf"), ("--out page.pdf", ".html")),
        (("{run}", "--out", "no/where.html"), ("--out no/where.html", "is not a folder")),
        (("{run}", "--baseline", "nobody"), ("baseline", "nobody")),
        (("{run}", "--target", "soon"), ("soon",)),
        ((), ("PATH",)),
    ],
)
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], parts: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run = write_run(tmp_path / "run")
    places = {"run": run, "empty": tmp_path / "empty"}
    refused(flatfed("report", *(word.format(**places) for word in arguments)), *parts)
    assert not Path("report.html").exists()


def test_a_study_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study/study.json").write_text("{}")
    refused(flatfed("report", tmp_path / "study"))


def test_without_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "run")
    found = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name in ("jinja2", "plotly") else found(name, package)

    monkeypatch.setattr("importlib.util.find_spec", without)
    refused(flatfed("report", run), "needs jinja2 and plotly", "pip install 'flatfed[report]'")
    # A comparison is complete without its page.
    results = collect([run])
    assert comparison_page(results, object(), tmp_path) == []
    assert not (tmp_path / "report.html").exists()
