"""Lines between models of a study: drawn for each seed, packed with the results, on the page with their barriers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flatfed.runs.records.files import KEY, read_json, write_json
from flatfed.studies.drawing.draw_figures import draw_figures
from flatfed.studies.entering import recorded_study
from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.barriers import barrier_parts
from flatfed.studies.folder import StudyFolder
from flatfed.studies.packing.pack import pack_study
from flatfed.studies.packing.packed_lines import read_lines
from flatfed.studies.packing.unpack import unpack_study
from flatfed.studies.reading import study_of
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small

LINE = {"draw": "landscape", "kind": "line", "points": 5, "samples": 50, "methods": ["one", "two"], "settings": ["a"]}
STUDY: dict[str, Any] = {
    "methods": {"one": "fedavg", "two": "fedsam"},
    "settings": {"a": {}, "b": {"alpha": 100}},
    "seeds": [0, 3],
    "report": {"figures": {"between": {**LINE, "seeds": [0, 3]}}},
}
ABOUT = "question: What lies between?\npapers:\n  fedsam: [It is small.]\n"


class Silent:
    def show(self, name: str, done: int, total: int | None) -> None:
        pass

    def say(self, text: str) -> None:
        pass


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a study that has ended, was drawn and was published as `tiny`."""
    base = tmp_path_factory.mktemp("lines")
    run_here(base / "runs", **STUDY)
    running = RunningStudy(study_of(small(**STUDY)), base / "runs")
    draw_figures(running, Silent(), 0)
    tiny = base / "studies" / "tiny"
    tiny.mkdir(parents=True)
    (tiny / "study.yaml").write_text(json.dumps(small(**STUDY)))
    (tiny / "about.yaml").write_text(ABOUT)
    pack_study(running, tiny / "results")
    return base


@pytest.fixture(scope="module")
def published(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return Evidence(base / "studies", tmp_path_factory.mktemp("work"))


def study_in(evidence: Evidence) -> PublishedStudy:
    (study,) = evidence.studies
    return study


def drawn_data(base: Path, seed: int) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((base / "runs" / "figures" / f"between-a-seed-{seed}.json").read_text())
    line: dict[str, Any] = record["data"]["lines"][0]
    return line


def test_a_figure_has_a_picture_for_each_of_its_seeds(base: Path) -> None:
    pictures = {file.name for file in (base / "runs" / "figures").glob("*.png")}
    assert pictures == {"between-a-seed-0.png", "between-a-seed-3.png"}
    assert drawn_data(base, 0)["losses"] != drawn_data(base, 3)["losses"]


def test_what_is_packed_are_the_numbers_that_were_drawn(base: Path) -> None:
    of_seeds = read_lines(base / "studies" / "tiny" / "results")
    assert [(one.name, one.setting, one.seed) for one in of_seeds] == [
        ("between-a-seed-0", "a", 0),
        ("between-a-seed-3", "a", 3),
    ]
    for one in of_seeds:
        (line,) = one.lines
        wanted = drawn_data(base, one.seed)
        assert {name: values.tolist() for name, values in line.losses.items()} == wanted["losses"]
        assert (line.xs.tolist(), dict(line.barriers)) == (wanted["xs"], wanted["barriers"])


def test_lines_of_other_runs_are_not_packed(base: Path, tmp_path: Path) -> None:
    changed = {**STUDY, "report": {"figures": {"between": {**LINE, "seeds": [0, 3], "points": 7}}}}
    pack_study(RunningStudy(study_of(small(**changed)), base / "runs"), tmp_path / "packed")
    assert not (tmp_path / "packed" / "lines").exists()


def test_lines_that_are_of_other_models_by_now_are_removed(base: Path, tmp_path: Path) -> None:
    pack_study(RunningStudy(study_of(small(**STUDY)), base / "runs"), tmp_path / "packed")
    assert len(list((tmp_path / "packed" / "lines").iterdir())) == 2
    fewer = {**STUDY, "report": {"figures": {"between": {**LINE, "seeds": [3]}}}}
    pack_study(RunningStudy(study_of(small(**fewer)), base / "runs"), tmp_path / "packed")
    assert [file.name for file in (tmp_path / "packed" / "lines").iterdir()] == ["between-a-seed-3.json"]


def test_lines_of_an_unpacked_study_stay(base: Path, tmp_path: Path) -> None:
    results = base / "studies" / "tiny" / "results"
    before = {file.name: file.read_bytes() for file in (results / "lines").iterdir()}
    unpack_study(results, tmp_path / "again")
    pack_study(RunningStudy(recorded_study(StudyFolder(tmp_path / "again")), tmp_path / "again"), results)
    assert {file.name: file.read_bytes() for file in (results / "lines").iterdir()} == before


def test_a_barrier_that_is_not_finite_is_said(base: Path, published: Evidence, tmp_path: Path) -> None:
    file = base / "studies" / "tiny" / "results" / "lines" / "between-a-seed-0.json"
    record = {name: value for name, value in read_json(file).items() if name != KEY}
    line = record["lines"][0]
    line["losses"]["train"][line["xs"].index(0.5)] = None
    line["barriers"]["train"] = None
    (tmp_path / "lines").mkdir()
    write_json(tmp_path / "lines" / file.name, record)
    study = replace(study_in(published), lines=read_lines(tmp_path))
    _, table, _ = barrier_parts(study, "a")
    assert table.count("not finite") == 1


def test_packed_lines_are_sealed(base: Path) -> None:
    for file in (base / "studies" / "tiny" / "results" / "lines").glob("*.json"):
        assert "lines" in read_json(file)  # which refuses what was changed


def test_the_page_has_the_barrier_of_each_seed(base: Path, published: Evidence) -> None:
    words, table, picture = barrier_parts(study_in(published), "a")
    assert "how far the loss" in words
    for seed in (0, 3):
        data = drawn_data(base, seed)
        for name, barrier in data["barriers"].items():
            losses = dict(zip(data["xs"], data["losses"][name], strict=True))
            ends = f"{losses[0.0]:.4g} | {losses[1.0]:.4g}"
            assert f"| two to one | {seed} | {name} | {ends} | {barrier:.4g} |" in table
    assert "../pictures/evidence/tiny--between-a-seed-0.png" in picture
    assert picture in published.pages()["fedsam.md"]


def test_a_setting_without_lines_has_nothing_of_them(published: Evidence) -> None:
    assert list(barrier_parts(study_in(published), "b")) == []


def test_the_picture_of_the_first_seed_is_drawn(published: Evidence, tmp_path: Path) -> None:
    files = {file.name for file in published.draw(tmp_path)}
    assert "tiny--between-a-seed-0.png" in files
    assert "tiny--between-a-seed-3.png" not in files
