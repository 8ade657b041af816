"""A study that is changed after it began: what is new is trained, what no longer matches is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import Outcome, fingerprint, flatfed
from flatfed.studies.folder import StudyFolder
from studies.bench import digests, run_here, written

FIRST: dict[str, Any] = {"rounds": 2, "methods": ["fedavg"], "settings": {"a": {}, "b": {"alpha": 10}}, "seeds": 0}


def run(folder: Path, *options: str, **changes: Any) -> Outcome:
    file = written(folder, **FIRST | changes)
    return flatfed("study", "run", file, "--out", folder / "out", "--jobs", 1, *options)


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    outcome = run(tmp_path)
    assert outcome.code == 0, outcome.err
    return tmp_path


def runs(folder: Path) -> dict[str, str]:
    """Return the files of the runs."""
    return {name: content for name, content in fingerprint(folder / "out").items() if name.startswith("cells/")}


def test_the_same_study_again_does_nothing(begun: Path) -> None:
    before = runs(begun)
    assert run(begun).code == 0
    assert runs(begun) == before


MORE: dict[str, dict[str, Any]] = {
    "seeds": {"seeds": "0, 1"},
    "methods": {"methods": ["fedavg", "feddyn"]},
    "settings": {"settings": {**FIRST["settings"], "c": {"alpha": 1}}},
}


@pytest.mark.parametrize("what", MORE)
def test_more_of_something_leaves_what_is_there(what: str, begun: Path) -> None:
    before = runs(begun)
    outcome = run(begun, **MORE[what])
    assert outcome.code == 0, outcome.err
    after = runs(begun)
    assert before.items() <= after.items()
    assert len(list((begun / "out").glob("cells/*/*/*/config.json"))) == (3 if what == "settings" else 4)


def test_more_rounds_go_on_in_place_to_the_same_bits(begun: Path) -> None:
    outcome = run(begun, rounds=3)
    assert outcome.code == 0, outcome.err
    run_here(begun / "long", **FIRST | {"rounds": 3})
    assert digests(begun / "out") == digests(begun / "long")


REFUSED = {
    "another rate": ({"lr": 0.2}, "settings.lr was 0.1 and is 0.2"),
    "fewer rounds": ({"rounds": 1}, "settings.rounds was 2 and is 1"),
    "another method": ({"methods": {"fedavg": "fedsam"}}, "algorithm"),
    "another setting": ({"settings": {"a": {"alpha": 3}, "b": {"alpha": 10}}}, "alpha"),
    "more rounds and another rate": ({"rounds": 4, "lr": 0.2}, "settings.lr"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_longer_matches_is_refused_and_nothing_is_touched(what: str, begun: Path) -> None:
    changes, words = REFUSED[what]
    before = fingerprint(begun / "out")
    outcome = run(begun, **changes)
    assert (outcome.code, outcome.out) == (2, "")
    assert "began as something else" in outcome.err
    assert "fedavg, a, seed 0: " in outcome.err
    assert words in outcome.err
    assert "remove these runs" in outcome.err
    assert fingerprint(begun / "out") == before


def test_an_average_is_laid_out_over_its_rounds_and_cannot_be_made_longer(tmp_path: Path) -> None:
    swa = {"methods": {"mine": "fedavg+swa"}, "settings": {"a": {}}}
    assert run(tmp_path, **swa).code == 0
    outcome = run(tmp_path, **swa, rounds=4)
    assert outcome.code == 2
    assert "settings.rounds was 2 and is 4" in outcome.err


def test_what_is_removed_is_told_and_stays(begun: Path) -> None:
    before = runs(begun)
    outcome = run(begun, settings={"a": {}})
    assert outcome.code == 0
    assert "1 runs of before are not part of the study any more, such as cells/b/fedavg/seed-0" in outcome.err
    assert runs(begun) == before
    assert " b " not in outcome.out


def test_another_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    outcome = run(tmp_path)
    assert outcome.code == 2
    assert "is not a study" in outcome.err
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.tex"]
    outcome = flatfed("study", "show", tmp_path / "out")
    assert outcome.code == 2
    assert "is not the folder of a study" in outcome.err


def test_what_a_killed_start_leaves_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".study.json.99.tmp").write_text("half")
    assert run(tmp_path).code == 0


def test_a_larger_grid_that_chooses_otherwise_trains_anew(tmp_path: Path) -> None:
    """What is reported is always of the point that was chosen, also where another was before."""
    alone = {"settings": {"a": {}}, "seeds": 0}
    first = run(tmp_path, "--json", grid={"fedavg": {"lr": [1e-6, 1e-5]}}, **alone)
    second = run(tmp_path, "--json", grid={"fedavg": {"lr": [1e-6, 1e-5, 0.1]}}, **alone)
    assert first.code == second.code == 0, second.err
    chosen = [outcome.json["chosen"][0]["chosen"]["lr"] for outcome in (first, second)]
    assert chosen[0] < 1e-4
    assert chosen[1] == 0.1
    means = [outcome.json["rows"][0]["mean"] for outcome in (first, second)]
    assert means[1] > means[0]
    # What was chosen before stays where it was.
    assert len(list((tmp_path / "out" / "cells" / "a" / "fedavg").iterdir())) == 2


def test_more_rounds_of_a_study_with_a_grid_reach_what_is_reported_too(tmp_path: Path) -> None:
    grid = {"settings": {"a": {}}, "grid": {"fedavg": {"lr": [1e-6, 0.1]}}}
    assert run(tmp_path, **grid).code == 0
    assert run(tmp_path, **grid, rounds=3).code == 0
    assert {tuple(run["rounds"]) for run in digests(tmp_path / "out").values()} == {(0, 1, 2)}


def test_a_record_of_an_earlier_version_opens_and_one_that_is_none_is_a_sentence(begun: Path) -> None:
    folder = StudyFolder(begun / "out")
    record = folder.record()["study"]
    report = {"accuracy": "last", "targets": [], "reference": "", "flatness": False, "published": "some table"}
    earlier = {name: value for name, value in record.items() if name != "tune"} | {"report": report}
    folder.write_record({"study": earlier})
    assert flatfed("study", "show", begun / "out").code == 0
    figure = {"draw": "nothing", "options": {}, "methods": [], "settings": []}
    others = [[], {}, {"methods": 3}, record | {"later": 1}, record | {"report": {"figures": {"a": figure}}}]
    for other in others:
        folder.write_record({"study": other})
        for command in (("study", "show"), ("study", "draw"), ("report", "--out", begun / "page.html")):
            outcome = flatfed(*command, begun / "out")
            assert outcome.code == 2, outcome.err
            assert "study.json does not hold a study" in outcome.err or "drawing 'nothing'" in outcome.err
