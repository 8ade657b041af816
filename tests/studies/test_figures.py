"""The figures of a study: drawn from finished runs, once, whatever happens on the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from flatfed.runs.records.files import held
from flatfed.studies.drawing.draw_figures import DrawnFigures, draw_figures
from flatfed.studies.entering import recorded_study
from flatfed.studies.folder import StudyFolder
from flatfed.studies.reading import study_of
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small, written

STUDY: dict[str, Any] = {
    "methods": {"fedavg": None, "mine": "fedsam", "dyn": "feddyn", "wild": "fedavg(server_lr=1e30)"},
    "settings": {"a": {}, "b": {"alpha": 100}},
    "per_round": 3,
    "seeds": [0, 1],
}
THREE = ["fedavg", "mine", "dyn"]
QUICK = {"draw": "landscape", "points": 3, "samples": 50}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "out"
    run_here(folder, **STUDY)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "out"))


class Listener:
    """Keeps what it hears; asks to stop after a number of points."""

    def __init__(self, most: int | None = None) -> None:
        self.said: list[str] = []
        self.shown: list[tuple[str, int, int | None]] = []
        self.most = most

    def show(self, name: str, done: int, total: int | None) -> None:
        self.shown.append((name, done, total))
        if self.most is not None and done >= self.most:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        self.said.append(text)


def drawn(folder: Path, figures: dict[str, Any], listener: Listener | None = None, again: bool = False) -> DrawnFigures:
    running = RunningStudy(study_of(small(**STUDY, report={"figures": figures})), folder)
    return draw_figures(running, listener or Listener(), 0, again)


def names(folder: Path) -> set[str]:
    return {file.name for file in (folder / "figures").iterdir() if not file.name.startswith(".")}


def pictures(*stems: str) -> set[str]:
    return {f"{stem}{ending}" for stem in stems for ending in (".png", ".pdf")}


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / "figures" / f"{name}.json").read_text(encoding="utf-8"))


KINDS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "surface": (QUICK, {*pictures("x-a", "x-a-contours"), "x-a.html", "x-a.json"}),
    "line": ({**QUICK, "kind": "line", "methods": ["fedavg", "mine"]}, {*pictures("x-a"), "x-a.json"}),
    "plane": ({**QUICK, "kind": "plane", "methods": THREE}, {*pictures("x-a-loss", "x-a-error"), "x-a.json"}),
    "along": (
        {**QUICK, "kind": "along", "directions": 2},
        {*pictures("x-a-along-the-gradient", "x-a-along-random-directions"), "x-a.json"},
    ),
    "client": (
        {**QUICK, "kind": "client", "methods": THREE},
        {
            *pictures("x-a", "x-a-own-contours", "x-a-everyone-contours"),
            *("x-a-own.html", "x-a-everyone.html", "x-a.json"),
        },
    ),
    "clients": (
        {**QUICK, "kind": "clients", "methods": ["fedavg", "mine"]},
        {
            *pictures("x-a-fedavg-loss", "x-a-fedavg-error", "x-a-mine-loss", "x-a-mine-error"),
            *("x-a-fedavg.json", "x-a-mine.json"),
        },
    ),
    "client-plane": (
        {**QUICK, "kind": "client-plane", "methods": "mine"},
        {*pictures("x-a-mine"), "x-a-mine.json"},
    ),
    "spectrum": (
        {"draw": "flatness", "measure": "spectrum(k=2)", "samples": 50},
        {*pictures("x-a", "x-a-accuracy-lambda"), "x-a.json"},
    ),
    "lambda": ({"draw": "flatness", "measure": "lambda_max", "samples": 50}, {*pictures("x-a"), "x-a.json"}),
    "nothing that can be drawn": ({"draw": "flatness", "measure": "loss"}, {"x-a.json"}),
    "embedding": ({"draw": "embedding", "methods": THREE}, {*pictures("x-a"), "x-a.json"}),
    "embedding of clients": ({"draw": "embedding", "clients": 2, "methods": "mine"}, {*pictures("x-a"), "x-a.json"}),
    "robustness": ({"draw": "robustness", "corruptions": "contrast"}, {*pictures("x-a"), "x-a.json"}),
    "robustness of one": (
        {"draw": "robustness", "corruptions": ["contrast"], "severity": "all", "methods": "mine"},
        {*pictures("x-a"), "x-a.json"},
    ),
    "classes": ({"draw": "class-distribution"}, {*pictures("x-a"), "x-a.json"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn(kind: str, folder: Path) -> None:
    figure, expected = KINDS[kind]
    pytest.importorskip("plotly")
    listener = Listener()
    result = drawn(folder, {"x": {**figure, "settings": "a"}}, listener)
    assert names(folder) == expected
    assert result.failed == []
    for file in (folder / "figures").glob("*.png"):
        assert file.read_bytes().startswith(b"\x89PNG")
    for file in (folder / "figures").glob("*.pdf"):
        assert file.read_bytes().startswith(b"%PDF")
    # What is there already and unchanged stays.
    before = {file: file.stat().st_mtime_ns for file in (folder / "figures").iterdir()}
    quiet = Listener()
    assert drawn(folder, {"x": {**figure, "settings": "a"}}, quiet).unchanged == result.drawn
    assert quiet.shown == []
    assert before == {file: file.stat().st_mtime_ns for file in (folder / "figures").iterdir()}


def test_runs_are_called_by_the_names_of_the_study(folder: Path) -> None:
    figures = {
        "s": QUICK,
        "f": {"draw": "flatness", "measure": "lambda_max", "samples": 50},
        "r": {"draw": "robustness", "corruptions": "contrast"},
    }
    drawn(folder, figures)
    assert [grid["label"] for grid in read(folder, "s-b")["data"]["grids"]] == THREE
    assert [run["method"] for run in read(folder, "f-b")["data"]] == THREE
    assert [run["method"] for run in read(folder, "r-b")["data"]] == THREE
    assert read(folder, "s-b")["methods"] == THREE


def test_figures_are_drawn_in_the_space_that_is_asked_for(folder: Path) -> None:
    figure = {"draw": "flatness", "measure": "parameter_norm", "settings": "a", "methods": "mine"}
    drawn(folder, {"x": {**figure, "space": "full"}, "s": {**QUICK, "space": "full", "settings": "a"}})
    [run] = read(folder, "x-a")["data"]
    assert "in the full space" in run["results"]["parameter_norm"]["remark"]
    assert all("in the full space" in grid["note"] for grid in read(folder, "s-a")["data"]["grids"])


def test_runs_that_diverged_are_left_out(folder: Path) -> None:
    listener = Listener()
    line = {**QUICK, "kind": "line", "methods": ["fedavg", "wild"]}
    result = drawn(folder, {"s": {**QUICK, "settings": "a"}, "line": {**line, "settings": "a"}}, listener)
    assert result == DrawnFigures(drawn=["s-a"])
    assert "s-a: wild is left out, its run is diverged" in listener.said
    assert "line-a: not drawn, it takes 2 runs and 1 finished" in listener.said
    assert not list((folder / "figures").glob("line*"))


def test_runs_that_wait_are_left_out(tmp_path: Path) -> None:
    listener = Listener()
    content = small(methods=["fedavg"], report={"figures": {"s": QUICK, "c": {"draw": "class-distribution"}}})
    running = RunningStudy(study_of(content), tmp_path / "out")
    running.enter()
    result = draw_figures(running, listener, 0)
    # Nothing of a run is on a distribution of classes; a study without settings has none in its names.
    assert result == DrawnFigures(drawn=["c"])
    assert listener.said == [
        "s: fedavg is left out, its run is waiting",
        "s: not drawn, it takes at least 1 run and 0 finished",
    ]


def test_what_was_interrupted_goes_on(folder: Path, trained: Path, tmp_path: Path) -> None:
    figures = {"s": {**QUICK, "points": 5, "settings": "a", "methods": "mine"}}
    with pytest.raises(KeyboardInterrupt):
        drawn(folder, figures, Listener(most=10))
    assert names(folder) == set()
    # The first line says what the points are of.
    kept = [len(file.read_bytes().splitlines()) - 1 for file in folder.glob("cells/a/mine/seed-0/flatness/surface-*")]
    assert 0 < sum(kept) < 25
    listener = Listener()
    drawn(folder, figures, listener)
    # Those that are there are not evaluated again.
    assert min(done for name, done, _ in listener.shown if ":" in name) > 0
    other = Path(shutil.copytree(trained, tmp_path / "other"))
    drawn(other, figures)
    assert read(folder, "s-a") == read(other, "s-a")
    assert (folder / "figures/s-a.png").read_bytes() == (other / "figures/s-a.png").read_bytes()


def test_a_changed_figure_is_drawn_again(folder: Path) -> None:
    other = {"draw": "class-distribution"}
    drawn(folder, {"x": {**QUICK, "settings": "a"}, "y": other})
    result = drawn(folder, {"x": {**QUICK, "kind": "plane", "methods": THREE, "settings": "a"}, "y": other})
    assert result == DrawnFigures(drawn=["x-a"], unchanged=["y-a", "y-b"])
    # What it was before is gone, and nothing else is.
    own = {*pictures("x-a-loss", "x-a-error"), "x-a.json"}
    assert names(folder) == own | {*pictures("y-a", "y-b"), "y-a.json", "y-b.json"}
    assert drawn(folder, {"y": other}, again=True) == DrawnFigures(drawn=["y-a", "y-b"])
    (folder / "figures/y-a.pdf").unlink()
    assert drawn(folder, {"y": other}) == DrawnFigures(drawn=["y-a"], unchanged=["y-b"])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": 3, "made_from": {}}', '{"files": ["../../study.json"]}'])
def test_a_record_that_was_changed_does_no_harm(text: str, folder: Path) -> None:
    figures = {"y": {"draw": "class-distribution", "settings": "a"}}
    drawn(folder, figures)
    (folder / "figures/y-a.json").write_text(text)
    assert drawn(folder, figures) == DrawnFigures(drawn=["y-a"])
    assert (folder / "study.json").exists()


def test_one_that_fails_does_not_stop_the_others(folder: Path) -> None:
    figures = {
        "bad": {**QUICK, "kind": "client", "client": 99, "settings": "a", "methods": "mine"},
        "good": {"draw": "class-distribution", "settings": "a"},
    }
    listener = Listener()
    assert drawn(folder, figures, listener) == DrawnFigures(drawn=["good-a"], failed=["bad-a"])
    assert [text for text in listener.said if text.startswith("bad-a: not drawn: ")]


def test_one_process_draws_at_a_time(folder: Path) -> None:
    listener = Listener()
    (folder / "figures").mkdir()
    with held(folder / "figures"):
        assert drawn(folder, {"y": {"draw": "class-distribution"}}, listener) == DrawnFigures()
    assert listener.said == [f"another process draws the figures in {folder / 'figures'}"]


def test_a_record_of_a_study_has_its_figures(tmp_path: Path) -> None:
    figures = {"s": {**QUICK, "kind": "clients", "clients": [1, 2, 3], "methods": ["fedavg"]}}
    study = study_of(small(report={"figures": figures}))
    RunningStudy(study, tmp_path / "out").enter()
    assert recorded_study(StudyFolder(tmp_path / "out")) == study
    # Studies of earlier versions have none.
    record = json.loads((tmp_path / "out/study.json").read_text())
    del record["study"]["report"]["figures"]
    StudyFolder(tmp_path / "out").write_record({"study": record["study"]})
    assert recorded_study(StudyFolder(tmp_path / "out")).report.figures == {}


def test_from_the_file_to_the_figures(tmp_path: Path) -> None:
    classes = {"draw": "class-distribution"}
    file = written(tmp_path, report={"figures": {"c": classes}})
    out = tmp_path / "out"
    outcome = flatfed("study", "run", file, "--out", out)
    assert outcome.code == 0, outcome
    assert f"figures in {out / 'figures'}: 1 drawn" in outcome.err
    assert names(out) == {"c.png", "c.pdf", "c.json"}
    history = out / "cells/fedavg/seed-0/history.jsonl"
    before = history.read_bytes()

    # Figures are changed at any time: nothing is trained for them, and no cell began as something else.
    written(tmp_path, report={"figures": {"c": classes, "s": QUICK}})
    outcome = flatfed("study", "draw", out)
    assert (outcome.code, outcome.out) == (0, ""), outcome
    assert f"figures in {out / 'figures'}: 1 drawn, 1 unchanged" in outcome.err
    outcome = flatfed("study", "run", file, "--out", out)
    assert outcome.code == 0, outcome
    assert "2 unchanged" in outcome.err
    assert history.read_bytes() == before
    assert "2 drawn" in flatfed("study", "draw", out, "--again").err

    written(tmp_path, methods=["fedavg", "fedsam"], report={"figures": {"s": {**QUICK, "methods": ["fedsam"]}}})
    outcome = flatfed("study", "draw", out)
    assert outcome.code == 2
    assert "run the study first" in outcome.err
    written(tmp_path, report={"figures": {"s": {**QUICK, "pints": 3}}})
    outcome = flatfed("study", "draw", out)
    assert outcome.code == 2
    assert "did you mean 'points'" in outcome.err
    file.unlink()
    outcome = flatfed("study", "draw", out)
    assert outcome.code == 0
    assert "is not there any more" in outcome.err
    assert "2 unchanged" in outcome.err


def test_a_figure_that_cannot_be_drawn_is_an_exit_code(tmp_path: Path) -> None:
    bad = {**QUICK, "kind": "client", "client": 99}
    file = written(tmp_path, report={"figures": {"bad": bad}})
    outcome = flatfed("study", "run", file, "--out", tmp_path / "out", "--jobs", "1")
    assert outcome.code == 1
    assert "bad: not drawn: " in outcome.err
    assert "accuracy" in outcome.out


def test_a_folder_without_figures(tmp_path: Path) -> None:
    outcome = flatfed("study", "draw", tmp_path)
    assert outcome.code == 2
    assert "is not the folder of a study" in outcome.err
    file = written(tmp_path)
    assert flatfed("study", "run", file, "--out", tmp_path / "out").code == 0
    outcome = flatfed("study", "draw", tmp_path / "out")
    assert outcome.code == 2
    assert "has no figures" in outcome.err
    assert not (tmp_path / "out/figures").exists()
