"""Every notebook runs from its first cell to its last, and is kept without results."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from show_notebooks import executed, markdown, notebooks  # noqa: E402

NOTEBOOKS = notebooks()
SAID = {
    "compare-methods": ("fedgmt", "speed-up", "works offline"),
    "look-at-flatness": ("lambda_max", "on average at the edge", "fedasam+swa {10:"),
    "own-model-and-data": ("all hospitals together", "youth clinic alone", "high risk with probability"),
    "write-a-method": ("agreement over six rounds: distance", "passed", "FedSAM to the bit: True"),
}
"""Words that each comes to."""


def name_of(path: Path) -> str:
    return path.stem


def content(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return read


def test_there_are_four() -> None:
    assert set(map(name_of, NOTEBOOKS)) == SAID.keys()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_no_results_are_kept(path: Path) -> None:
    for cell in content(path)["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, cell["id"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for cell in content(path)["cells"]:
        if cell["cell_type"] == "markdown":
            for link in re.findall(r"\]\(([^)#\s]+)", "".join(cell["source"])):
                assert (path.parent / link).exists(), link


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    page = markdown(executed(path.read_text(encoding="utf-8"), tmp_path))
    assert [words for words in SAID[path.stem] if words not in page] == []
    assert "```text" in page and "\x1b" not in page
