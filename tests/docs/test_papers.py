"""Every paper has a page, in step with its studies and claims."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MOST_HOURS = 4
"""Of a study at small scale, on two cores."""
PAPERS = ("fedsam", "fedgf", "fedgloss", "fedwmsam", "fedvssam")
SECTIONS = (
    *("Its tables and figures", "The main table at small scale", "What flatfed holds against it"),
    "Where paper and code differ",
)


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "write_papers.py"))


def page(paper: str) -> str:
    return (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_is_in_step_with_the_studies(script: dict[str, Any], paper: str) -> None:
    assert script["with_tables"](paper, page(paper)) == page(paper), "run docs/write_papers.py"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_has_every_section(paper: str) -> None:
    for section in SECTIONS:
        assert f"## {section}" in page(paper)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_names_every_item_and_claim(script: dict[str, Any], paper: str) -> None:
    from flatfed.published.claims import claims

    for id in script["items"](paper):
        assert f"| `{id}` |" in page(paper)
    for claim in claims():
        assert (f"| `{claim.id}` |" in page(paper)) == (claim.paper == paper)


def test_a_table_or_figure_is_a_study_or_says_why_not(script: dict[str, Any]) -> None:
    for paper in PAPERS:
        for id, item in script["items"](paper).items():
            reason = item.get("nothing to run")
            assert item["shows"], f"{paper}/{id}"
            assert bool(reason) != ("study" in item), f"{paper}/{id}"
            assert reason or "small" not in item or item["small"]["note"], f"{paper}/{id}"


def test_the_reference_names_every_page() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for paper in PAPERS:
        assert f"(papers/{paper}.md)" in reference
    assert "papers/[a-z]*" in reference


def test_every_study_of_the_papers_was_checked_and_is_small() -> None:
    found = json.loads((ROOT / "docs" / "hours.json").read_text(encoding="utf-8"))["presets"]
    assert set(found) == set(runpy.run_path(str(ROOT / "docs" / "measure_hours.py"))["runnable"]())
    assert all(entry["seconds"] <= MOST_HOURS * 3600 for entry in found.values())
