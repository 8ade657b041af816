"""What a study's report has on demand: targets, flatness, published values, curves, values against a parameter."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.published.lookup import lookup
from flatfed.published.matching import Match
from flatfed.published.table_matching import TableMatch
from flatfed.reports.figures.comparisons.cost_curves import AXES, _curve, _draw_panel, draw_cost_curves
from flatfed.studies.reading import study_of
from flatfed.studies.reporting import write_study_report
from flatfed.studies.reporting.measuring import measure_study, unmeasured
from flatfed.studies.reporting.report_files import record_files
from flatfed.studies.reporting.study_figures import _rest
from flatfed.studies.reporting.study_flatness import FlatnessBlock
from flatfed.studies.reporting.study_page import study_part, study_views
from flatfed.studies.reporting.study_published import PublishedLine, _measured
from flatfed.studies.reporting.study_runs import StudyResults
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


def test_the_page_has_the_targets_of_the_report(running: RunningStudy) -> None:
    for report, expected in (({"targets": "reference", "reference": "slow"}, ["a", "b"]), ({"targets": [150]}, [])):
        study = study_of(small(**STUDY | {"report": report}))
        again = RunningStudy(study, running.folder.path)
        values = [target.value for view in study_views(again, lambda run: None) for target in view.extras.targets]
        assert values == [again.table().entry(setting, "slow").mean for setting in expected]


def test_a_published_number_stands_beside_a_mean_over_all_seeds_or_none(running: RunningStudy) -> None:
    key = ("a", "fedavg")
    table = running.table()
    value = next(one for one in lookup("fedgloss") if one.metric == "lambda_max")
    half = FlatnessBlock("lambda_max", {key: {0: 1.0}})
    whole = FlatnessBlock("lambda_max", {key: {0: 1.0, 1: 2.0}})
    for block, mean in ((half, None), (whole, 1.5)):
        (measured,) = _measured(table, key, value, [block], [])
        assert (measured.spread and measured.spread[0], measured.seeds) == (mean, 2)


def test_runs_that_missed_a_target_are_a_reason(running: RunningStudy) -> None:
    value = next(one for one in lookup("fedwmsam") if one.metric == "rounds_to_target")
    line = PublishedLine("a", "fedavg", (3.0, None), 1, False, TableMatch(Match(value, (), ())), "1 of 2")
    assert "the target was not reached in 1 of 2 runs here" in line.reasons


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


def test_flatness_over_some_examples_is_another_number(running: RunningStudy, tmp_path: Path) -> None:
    report = {"flatness": "sharpness", "flatness_samples": 50, "published": "fedgf/table-2"}
    study = study_of(small(**STUDY | {"report": report, "settings": {"a": {"alpha": 1}}, "methods": ["fedavg"]}))
    again = RunningStudy(study, running.folder.path)
    assert len(unmeasured(again)) == 2
    heard = Heard()
    measure_study(again, heard.step, heard.said.append)
    assert (unmeasured(again), heard.said) == ([], [])
    write_study_report(again.table(), tmp_path)
    assert "over 50 training examples" in (tmp_path / "flatness.md").read_text()
    (few,) = json.loads((tmp_path / "flatness.json").read_text())
    write_study_report(running.table(), tmp_path)
    records = json.loads((tmp_path / "flatness.json").read_text())
    (all_of_them,) = [
        line for line in records if (line["number"], line["setting"], line["method"]) == ("sharpness", "a", "fedavg")
    ]
    assert few["mean"] != all_of_them["mean"]


def test_fewer_examples_are_a_reason() -> None:
    value = next(one for one in lookup("fedgloss") if one.metric == "lambda_max")
    match = TableMatch(Match(value, (), ()))
    assert PublishedLine("a", "fedavg", (3.0, None), 3, False, match).reasons == []
    (reason,) = PublishedLine("a", "fedavg", (3.0, None), 3, False, match, samples=5000).reasons
    assert reason == "measured over 5,000 training examples here"


def test_several_metrics_have_a_table_each(running: RunningStudy, tmp_path: Path) -> None:
    study = study_of(small(**STUDY | {"report": {"metrics": "loss, accuracy, nothing_of_this_name"}}))
    again = RunningStudy(study, running.folder.path)
    table = again.table()
    assert [{metric.column for metric in own.metrics.values()} for own in (table, *table.further)] == [
        {"test_loss"},
        {"test_accuracy"},
        set(),
    ]
    plain = running.table()
    assert table.further[0].entry("a", "slow") == plain.entry("a", "slow")
    # A smaller loss is a better one.
    losses = {variant: table.entry("a", variant).mean for variant in ("fedavg", "slow")}
    assert table.entry("a", min(losses, key=lambda name: losses[name] or 0)).best
    files = {file.name for file in write_study_report(table, tmp_path)}
    assert {"table.csv", "table-test_accuracy.csv"} <= files
    texts = (tmp_path / "table.md").read_text(), (tmp_path / "table.tex").read_text()
    assert all("test loss" in text.lower() and "test accuracy in" in text for text in texts)
    further = json.loads((tmp_path / "table.json").read_text())["further"]
    assert {row["metric"] for row in further} == {"test_accuracy"}
    shown = flatfed("study", "show", running.folder.path)
    assert shown.code == 0 and "test accuracy" in shown.out
    part = study_part(again)
    assert ["test loss" in pivot["notes"][0].lower() for pivot in part["pivots"]] == [True, False]


def test_the_first_metric_decides_targets(running: RunningStudy, tmp_path: Path) -> None:
    report = {"metrics": ["loss"], "targets": "reference", "reference": "slow"}
    again = RunningStudy(study_of(small(**STUDY | {"report": report})), running.folder.path)
    write_study_report(again.table(), tmp_path)
    lines = json.loads((tmp_path / "targets.json").read_text())
    assert {line["value"] for line in lines} == {again.table().entry(setting, "slow").mean for setting in "ab"}
    assert all(line["reached"] == line["runs"] for line in lines if line["method"] == "fedavg")
    assert [view.extras.targets for view in study_views(again, lambda run: None)] == [(), ()]


def test_centralised_training_is_a_line_to_hold_others_against(tmp_path: Path) -> None:
    methods = {"fedavg": None, "all data": {"method": "centralised", "rounds": 1}}
    running = run_here(tmp_path / "out", methods=methods)
    (results,) = [found for _, found in StudyResults(running.table()).items()]
    curves = [_curve(result, "test_accuracy", 100.0, result.method == "all data") for result in results]
    figure = Figure()
    axes = figure.add_subplot()
    _draw_panel(axes, AXES[0], curves)
    _, line = axes.get_lines()
    assert line.get_linestyle() == "--"
    assert set(line.get_ydata()) == {curves[1].values[1][0]}
    assert axes.get_xlabel() == "round"
    files = [tmp_path / "curve.svg"]
    draw_cost_curves(results, files, "test_accuracy")
    assert "centralised" in " ".join(re.findall(">([^<>]+)<", files[0].read_text()))


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


def test_a_changed_list_of_files_leads_nowhere_else(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "study"
    (folder / "begun").mkdir(parents=True)
    outside.mkdir()
    (folder / "curves").symlink_to(outside)
    named = ["study.json", "preset.json", "begun/a.json", "curves/mine.csv", "../outside/mine.csv", "old.md"]
    for name in named:
        (folder / name).write_text("{}")
    (folder / "report.json").write_text(json.dumps({"files": named}))
    record_files(folder, [])
    assert [name for name in named if not (folder / name).exists()] == ["old.md"]


def test_what_settings_share_fits_into_the_name_of_a_file() -> None:
    long = {"alpha": 1, "model": "m" * 300}
    names = {_rest(options, "alpha") for options in (long, {**long, "model": "m" * 301}, {"data_dir": "a\nb"})}
    assert len(names) == 3
    assert all(len(name.encode()) < 150 and name.isprintable() for name in names)
    assert _rest({"alpha": 1, "lr": 0.1}, "alpha") == "lr 0.1"
    assert _rest({"alpha": 1, "methods": {"fedavg": {"rounds": 3}}}, "alpha") == ""


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
