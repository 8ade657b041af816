"""The evidence is in step with the published results, and its parts are there and small."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from flatfed.studies.entering import changes
from flatfed.studies.evidence.about import FormPair
from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.evidence.page_differences import page_differences, page_points
from flatfed.studies.evidence.sections.barriers import drawn_lines
from flatfed.studies.evidence.sections.curve_ends import printed_ends
from flatfed.studies.evidence.sections.picture_files import ends_picture_name, line_picture_name, picture_name
from flatfed.studies.evidence.sections.study_section import is_drawn
from flatfed.studies.reading import read_study
from flatfed.studies.run_study import RunningStudy

ROOT = Path(__file__).parents[2]
METHODS = ROOT / "docs" / "algorithms"
MOST_BYTES, MOST_OF_CELL, MOST_OF_ALL = 150_000, 25_000, 12_000_000


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(ROOT / "studies", tmp_path_factory.mktemp("evidence"), ROOT / "docs" / "algorithms")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "write_evidence.py"))


def test_pages_are_in_step_with_the_results(script: dict[str, Any], evidence: Evidence) -> None:
    assert script["stale"](evidence) == [], "run docs/write_evidence.py"


def test_every_study_has_words_about_it(evidence: Evidence) -> None:
    described = sorted(file.parent.name for file in ROOT.glob("studies/*/study.yaml"))
    assert [study.name for study in evidence.studies] == described


def test_pictures_are_there_and_small(evidence: Evidence) -> None:
    folder = ROOT / "docs" / "pictures" / "evidence"
    drawn = {
        picture_name(study, setting)
        for study in evidence.studies
        for setting in study.study.settings
        if is_drawn(study, setting) and setting in study.table.metrics
    }
    drawn |= {
        line_picture_name(study, first)
        for study in evidence.studies
        for setting in study.study.settings
        for first in drawn_lines(study, setting)
    }
    drawn |= {
        ends_picture_name(study, setting, paper)
        for study in evidence.studies
        for setting in study.study.settings
        for paper in study.about.differences
        if printed_ends(study, setting, paper)
    }
    assert {file.name for file in folder.glob("*.png")} == drawn
    assert all(file.stat().st_size < MOST_BYTES for file in folder.glob("*.png"))


def test_a_study_s_file_trains_what_was_published(evidence: Evidence) -> None:
    for published in evidence.studies:
        study = read_study(ROOT / "studies" / published.name / "study.yaml")
        running = RunningStudy(study, published.running.folder.path)
        assert {cell.name: changes(running.folder, running.resolver, cell) for cell in running.cells()} == {
            cell.name: {} for cell in running.cells()
        }
        known = {cell.path.as_posix() for cell in running.cells()}
        assert set(running.folder.begun_paths()) <= known


def test_results_are_compact() -> None:
    sizes = [file.stat().st_size for file in ROOT.glob("studies/*/results/**/*.json")]
    assert max(sizes, default=0) < MOST_OF_CELL
    assert sum(sizes) < MOST_OF_ALL


def test_the_ledger_has_at_least_twelve_pairs_and_their_pages(evidence: Evidence) -> None:
    pairs = ledger_pairs(evidence)
    assert len(pairs) >= 12
    assert all((METHODS / f"{pair.page}.md").is_file() for pair in pairs)
    assert len({(pair.paper, pair.code) for pair in pairs}) == len(pairs)


def ledger_pairs(evidence: Evidence) -> list[FormPair]:
    return [pair for study in evidence.studies for pair in study.about.pairs]


def test_what_the_ledger_s_pairs_are_about_stands_on_their_pages(evidence: Evidence) -> None:
    for pair in ledger_pairs(evidence):
        assert pair.points, pair
        points = list(page_points(METHODS / f"{pair.page}.md", {}))
        for begin in pair.points:
            assert any(point.text.replace("**", "").startswith(begin) for point in points), begin


@pytest.mark.parametrize(
    ("variant", "paper_side", "code_side"),
    [
        ("mofedsam long step", "our reading", "FedGF authors' code"),
        ("fedadam code", "FedAdam paper", "FedSAM authors' code"),
        ("fedsmoo B", "our derivation", "FL-Simulator, by FedSMOO's authors"),
        ("fedgmt all duals", "FedGMT paper, second-hand", "FL-SAM, by FedGMT's authors"),
    ],
)
def test_the_ledger_says_where_a_side_is_not_the_method_s_own(
    evidence: Evidence, variant: str, paper_side: str, code_side: str
) -> None:
    pair = next(pair for pair in ledger_pairs(evidence) if pair.code == variant)
    assert pair.paper_side.startswith(paper_side) and pair.code_side.startswith(code_side)


def test_the_ledger_says_that_a_mean_of_duals_is_our_reading(evidence: Evidence) -> None:
    pair = next(pair for pair in ledger_pairs(evidence) if pair.paper == "fedgloss mean dual")
    assert pair.paper_side.startswith("our reading")


def test_the_ledger_has_every_point_of_every_page_once() -> None:
    """Points are found here by their lines, without the code that collects them."""
    lines = [line for line in page_differences(METHODS).replace("**", "").splitlines() if line.startswith("- ")]
    for page in METHODS.glob("[a-z]*.md"):
        section = page.read_text(encoding="utf-8").partition("\n## What differs from the authors' code\n")[2]
        begins = re.findall(r"^- (.*)", section.partition("\n## ")[0], flags=re.MULTILINE)
        assert begins, page.name
        for begin in begins:
            words = begin.replace("**", "").partition("[")[0]
            found = [line for line in lines if f"](../algorithms/{page.name})" in line and f": {words}" in line]
            assert len(found) == 1, begin


@pytest.mark.parametrize(
    ("page", "begin", "group"),
    [
        ("fedgloss", "Signs", "Code of the authors"),
        ("fedlesam", "Norm", "Code of the authors"),
        ("fedspeed", "Clipping", "Code of the authors"),
        ("fedspeed", "Penalty", "Code of others"),
        ("mofedsam", "FL-Simulator clips", "Code of others"),
        ("fedadam", "Bias correction", "Code of others"),
        ("fedvssam", "$d$ starts at zero", "No code is known"),
        ("naivefedgloss", "The choices on the global dual", "No code is known"),
        ("mime", "Only the momentum form", "Rules of flatfed"),
    ],
)
def test_the_ledger_knows_whose_code_a_point_names(page: str, begin: str, group: str) -> None:
    points = page_points(METHODS / f"{page}.md", {})
    assert [point.group for point in points if point.text.replace("**", "").startswith(begin)] == [group]


def test_nothing_is_chosen_on_the_test_set(evidence: Evidence) -> None:
    for published in evidence.studies:
        if any(map(published.study.is_searched, published.study.methods)):
            assert published.study.select.by == "validation", published.name
