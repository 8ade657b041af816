"""What a study's report has on demand: targets, flatness, published values, curves, values against a parameter."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flatfed.core.errors import ConfigError
from flatfed.studies.reading import study_of
from flatfed.studies.reporting import write_study_report
from flatfed.studies.reporting.measuring import measure_study
from flatfed.studies.run_study import RunningStudy
from studies.bench import run_here, small

REPORT: dict[str, Any] = {
    "targets": [1, 100],
    "flatness": ["sharpness", "parameter_norm"],
    "published": "fedgloss/table-3",
    "against": "alpha",
    "curves": ["accuracy", "nothing_of_this_name"],
}
STUDY: dict[str, Any] = {
    "title": "50 % & more_or_less",
    "methods": {"fedavg": None, "slow": "fedavg(server_lr=0.01)", "wild": "fedavg(server_lr=1e30)"},
    "settings": {"a": {"alpha": 1}, "b": {"alpha": 100}},
    "seeds": [0, 1],
    "report": REPORT,
}


class Heard:
    """Hears what is done and what is said."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.said: list[str] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.steps.append(name)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> RunningStudy:
    running = run_here(tmp_path_factory.mktemp("study") / "out", **STUDY)
    heard = Heard()
    measure_study(running, heard.step, heard.said.append)
    assert heard.said == []
    return running


@pytest.fixture(scope="module")
def written(running: RunningStudy) -> tuple[Path, list[str], list[str]]:
    said: list[str] = []
    files = write_study_report(running.table(), running.folder.path, said.append)
    return running.folder.path, [str(file.relative_to(running.folder.path)) for file in files], said


def test_nothing_is_measured_twice(running: RunningStudy) -> None:
    heard = Heard()
    measure_study(running, heard.step, heard.said.append)
    assert heard.steps == []


def test_targets(written: tuple[Path, list[str], list[str]]) -> None:
    records = json.loads((written[0] / "targets.json").read_text())
    by_key = {(line["target"], line["setting"], line["method"]): line for line in records}
    easy, hard = by_key["1", "a", "fedavg"], by_key["100", "a", "fedavg"]
    assert (easy["round"], easy["reached"], easy["runs"]) == (1, 2, 2)
    assert (hard["round"], hard["reached"], hard["runs"]) == (None, 0, 2)
    assert "| a | fedavg | – | – | 2 of 2 |" in (written[0] / "targets.md").read_text()


def test_the_reference_is_a_target(running: RunningStudy, tmp_path: Path) -> None:
    study = study_of(small(**STUDY | {"report": {"targets": "reference", "reference": "slow"}}))
    table = RunningStudy(study, running.folder.path).table()
    write_study_report(table, tmp_path)
    records = json.loads((tmp_path / "targets.json").read_text())
    assert {line["value"] for line in records if line["setting"] == "a"} == {table.entry("a", "slow").mean}


def test_a_table_that_states_no_partition_and_the_time_of_a_client(running: RunningStudy, tmp_path: Path) -> None:
    study = study_of(small(**STUDY | {"report": {"targets": [70], "published": "fedwmsam/table-3"}}))
    write_study_report(RunningStudy(study, running.folder.path).table(), tmp_path)
    records = json.loads((tmp_path / "published.json").read_text())
    of_slow = {line["metric"]: line for line in records if (line["setting"], line["method"]) == ("a", "slow")}
    assert set(of_slow) == {"rounds_to_target", "client_time_s"}
    assert "the paper does not state: partition" in of_slow["rounds_to_target"]["reasons"]
    assert of_slow["client_time_s"]["measured"] > 0
    assert "published of another machine" in of_slow["client_time_s"]["reasons"]


def test_flatness(written: tuple[Path, list[str], list[str]]) -> None:
    records = json.loads((written[0] / "flatness.json").read_text())
    assert {line["number"] for line in records} >= {"sharpness", "parameter_norm"}
    (one,) = [
        line for line in records if (line["number"], line["setting"], line["method"]) == ("sharpness", "a", "slow")
    ]
    assert one["mean"] == pytest.approx(sum(one["seeds"].values()) / 2)
    (lost,) = [
        line for line in records if (line["number"], line["setting"], line["method"]) == ("sharpness", "b", "wild")
    ]
    assert (lost["mean"], lost["seeds"]) == (None, {})
    lines = list(csv.DictReader((written[0] / "flatness.csv").read_text().splitlines()))
    assert [line["seed"] for line in lines if line["method"] == "slow" and line["number"] == "sharpness"] == list(
        "0101"
    )
    assert "lower is flatter" in (written[0] / "flatness.md").read_text()


def test_figures_and_what_cannot_be_drawn(written: tuple[Path, list[str], list[str]]) -> None:
    folder, files, said = written
    assert {"curves/a/test_accuracy.png", "curves/b/test_accuracy.pdf", "ranks.png"} <= set(files)
    assert {"against/test_accuracy.png", "against/sharpness.pdf", "against/parameter-norm.png"} <= set(files)
    assert all((folder / file).stat().st_size for file in files)
    assert len(said) == 2 and all("nothing_of_this_name" in text for text in said)


def test_what_a_later_report_has_not_is_removed(running: RunningStudy, tmp_path: Path) -> None:
    write_study_report(running.table(), tmp_path)
    (tmp_path / "curves" / "own.png").write_bytes(b"mine")
    study = study_of(small(**STUDY | {"report": {}, "settings": {"a": {"alpha": 1}}}))
    write_study_report(RunningStudy(study, running.folder.path).table(), tmp_path)
    assert not (tmp_path / "targets.md").exists()
    assert not (tmp_path / "against").exists()
    assert not (tmp_path / "curves" / "b").exists()
    assert (tmp_path / "curves" / "own.png").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX")
def test_latex_can_be_compiled(written: tuple[Path, list[str], list[str]], tmp_path: Path) -> None:
    inputs = "".join(f"\\input{{{written[0] / name}}}\n" for name in ("table", "targets", "flatness"))
    head = "\\documentclass[twocolumn]{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs, siunitx, pifont}\n"
    (tmp_path / "paper.tex").write_text(f"{head}\\begin{{document}}\n{inputs}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout[-2000:]
    assert "Overfull" not in outcome.stdout


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"targets": "fast"}, "targets must be percentages or reference"),
        ({"targets": ["a"]}, "is not a number"),
        ({"flatness": "lambda_mox"}, "lambda_max"),
        ({"published": "fedgloss"}, "PAPER/TABLE"),
        ({"published": "fedgloss/table-99"}, "table"),
        ({"against": "lr"}, "no two settings have different numbers for 'lr'"),
        ({"curves": [1]}, "is not a value of curves"),
    ],
)
def test_mistakes(report: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        study_of(small(**STUDY | {"report": report}))
