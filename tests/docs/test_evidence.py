"""The evidence is in step with the published results, and its parts are there and small."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from flatfed.studies.entering import changes
from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.evidence.sections.barriers import drawn_lines
from flatfed.studies.evidence.sections.curve_ends import printed_ends
from flatfed.studies.evidence.sections.picture_files import ends_picture_name, line_picture_name, picture_name
from flatfed.studies.evidence.sections.study_section import is_drawn
from flatfed.studies.reading import read_study
from flatfed.studies.run_study import RunningStudy

ROOT = Path(__file__).parents[2]
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
    pairs = [pair for study in evidence.studies for pair in study.about.pairs]
    assert len(pairs) >= 12
    assert all((ROOT / "docs" / "algorithms" / f"{pair.page}.md").is_file() for pair in pairs)
    assert len({(pair.paper, pair.code) for pair in pairs}) == len(pairs)


def test_the_ledger_names_every_page_with_differences() -> None:
    ledger = (ROOT / "docs" / "evidence" / "ledger.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "algorithms").glob("[a-z]*.md"):
        assert f"[`{page.stem}`](../algorithms/{page.name})" in ledger


def test_nothing_is_chosen_on_the_test_set(evidence: Evidence) -> None:
    for published in evidence.studies:
        if any(map(published.study.is_searched, published.study.methods)):
            assert published.study.select.by == "validation", published.name
