"""Settings that have some of a study's methods: read, told where they are wrong, trained, shown, reported, packed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.reports.tables.grid import NOTHING
from flatfed.studies.entering import recorded_study
from flatfed.studies.folder import StudyFolder
from flatfed.studies.reading import study_of
from flatfed.studies.reporting.study_page import study_part
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small, written

STUDY: dict[str, Any] = {
    "methods": ["fedavg", "fedsam", "feddyn"],
    "settings": {"all of them": {}, "two": {"alpha": 1, "only": ["feddyn", "fedavg"]}, "one": {"only": ["fedsam"]}},
    "report": {"targets": "reference", "reference": "fedavg", "flatness": "lambda_max", "flatness_samples": 32},
}
CELLS = [
    *(("all of them", variant) for variant in STUDY["methods"]),
    ("two", "fedavg"),
    ("two", "feddyn"),
    ("one", "fedsam"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    done = flatfed("study", "run", written(place, **STUDY), "--out", place / "out", "--jobs", 1)
    assert done.code == 0, done.err
    return place / "out"


def test_its_cells_are_those_that_are_named() -> None:
    study = study_of(small(**STUDY))
    assert list(study.columns()) == CELLS
    # In the order of the study, not in that of the list.
    assert study.methods_in("two") == ["fedavg", "feddyn"]
    assert "only" not in json.dumps(RunningStudy(study, Path("nowhere")).resolver._options(cell_of(study)).values)


def cell_of(study: ff.Study) -> Any:
    return next(cell for cell in RunningStudy(study, Path("nowhere")).cells() if cell.setting == "two")


def test_no_other_is_trained_and_all_is_counted(folder: Path) -> None:
    trained = {tuple(path.relative_to(folder / "cells").parts[:2]) for path in folder.glob("cells/*/*/seed-0")}
    assert trained == set(CELLS)
    running = RunningStudy(recorded_study(StudyFolder(folder)), folder)
    assert running.count == len(running.cells()) == len(CELLS)


def test_the_place_of_the_others_is_empty_in_every_table(folder: Path) -> None:
    shown = flatfed("study", "show", folder)
    assert shown.code == 0
    assert "of 1 seeds" not in shown.out
    running = RunningStudy(recorded_study(StudyFolder(folder)), folder)
    table = running.table()
    assert table.entry("one", "fedavg").mean is None
    assert not table.entry("one", "fedavg").ended
    page = study_part(running)["pivots"][0]
    by_method = {row[0]["text"]: [cell["text"] for cell in row[1:]] for row in page["rows"]}
    assert by_method["fedsam"][1] == by_method["fedavg"][2] == by_method["feddyn"][2] == NOTHING
    assert by_method["fedsam"][2] not in ("", NOTHING)
    assert "fedsam" not in {record["method"] for record in records(folder, "flatness") if record["setting"] == "two"}


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text())
    return found


def test_packed_and_unpacked_it_is_the_same(folder: Path, tmp_path: Path) -> None:
    assert flatfed("study", "pack", folder, tmp_path / "packed").code == 0
    assert flatfed("study", "unpack", tmp_path / "packed", tmp_path / "again").code == 0
    shown = [flatfed("study", "show", place).out for place in (folder, tmp_path / "again")]
    assert shown[0] == shown[1]


def test_more_methods_in_a_setting_leave_what_is_there(tmp_path: Path) -> None:
    few = {"methods": ["fedavg", "fedsam"], "settings": {"a": {}, "b": {"only": ["fedavg"]}}}
    run_here(tmp_path / "out", **few)
    file = tmp_path / "out/cells/b/fedavg/seed-0/history.jsonl"
    before = file.stat().st_mtime_ns
    run_here(tmp_path / "out", **{**few, "settings": {"a": {}, "b": {}}})
    assert file.stat().st_mtime_ns == before
    assert (tmp_path / "out/cells/b/fedsam/seed-0/history.jsonl").exists()


HEAD = "dataset: digits\nmethods:\n  fedavg:\n  fedsam:\nsettings:\n  a: {}\n"
MISTAKES = {
    "a method that there is not": (f"{HEAD}  b: {{only: [fedsma]}}\n", 7, "did you mean 'fedsam'"),
    "no list": (f"{HEAD}  b: {{only: fedsam}}\n", 7, "as a list, such as"),
    "an empty list": (f"{HEAD}  b: {{only: []}}\n", 7, "as a list, such as"),
    "nothing": (f"{HEAD}  b: {{only: }}\n", 7, "as a list, such as"),
    "a list in the list": (f"{HEAD}  b: {{only: [[fedsam]]}}\n", 7, "as a list, such as"),
    "one that stands there twice": (f"{HEAD}  b: {{only: [fedsam, fedsam]}}\n", 7, "stands there twice"),
    "options of one that is left out": (
        f"{HEAD}  b:\n    only: [fedsam]\n    methods:\n      fedavg: {{rounds: 3}}\n",
        10,
        "add it there",
    ),
    "for the whole study": (f"only: [fedavg]\n{HEAD}", 1, "unknown entry 'only'"),
    "a method that no setting has": (
        "dataset: digits\nmethods:\n  fedavg:\n  fedsam:\nsettings:\n  a: {only: [fedavg]}\n",
        4,
        "no setting has it",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_line(name: str, tmp_path: Path) -> None:
    text, line, words = MISTAKES[name]
    file = tmp_path / "s.yaml"
    file.write_text(text)
    outcome = flatfed("study", "check", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert f"line {line}:" in outcome.err
    assert words in outcome.err


def test_a_method_is_not_tuned_where_it_is_not_trained(tmp_path: Path) -> None:
    file = written(tmp_path, **STUDY, tune={"fedsam": {"lr": {"log": [0.01, 1.0]}}})
    tuned = flatfed("study", "tune", file, "fedsam", "--setting", "two", "--out", tmp_path / "out")
    assert tuned.code == 2
    assert "the setting two has only fedavg, feddyn" in tuned.err
    assert not (tmp_path / "out").exists()


def test_in_python() -> None:
    study = ff.Study(
        methods={"fedavg": "fedavg", "fedsam": "fedsam"},
        options={"dataset": "digits"},
        settings={"a": {}, "b": {"only": ("fedsam",)}},
    )
    assert list(study.columns()) == [("a", "fedavg"), ("a", "fedsam"), ("b", "fedsam")]
    with pytest.raises(ConfigError, match="no setting has it"):
        ff.Study(methods={"fedavg": "fedavg", "fedsam": "fedsam"}, options={}, settings={"a": {"only": ["fedavg"]}})
