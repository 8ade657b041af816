"""Presets: how they are read, merged, listed, written out and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed
from flatfed.cli.study.opening import opened_study
from flatfed.core.configuration.values import read_yaml
from flatfed.core.errors import ConfigError
from flatfed.studies.presets import SCALES, Scale, find_preset, paper_names, presets_of, read_presets, scale_named
from flatfed.studies.presets.merging import merged, merged_in_each_setting
from flatfed.studies.presets.smoke import smoke_of
from flatfed.studies.reading import read_study, study_of

TEXT = """
paper: mine
source: A paper of mine
shared: &base {dataset: cifar10, rounds: 500, clients: 100}
items:
  table-1:
    shows: something
    not stated: [the seeds]
    study:
      <<: *base
      rounds: 1000
      methods: {fedavg: , fedsam: }
      settings: {a: {alpha: 0, lr: 0.1}, b: {alpha: 1}}
      report: {reference: fedavg, accuracy: round 900}
    small:
      note: fewer rounds
      study: {rounds: 20, settings: {b: null}, report: {accuracy: null}}
      each setting: {model: cnn-small}
  table-2:
    shows: a sketch
    nothing to run: it is a sketch
"""


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


# --- merging ------------------------------------------------------------------------------------------------------


def test_mappings_are_merged_values_replace_and_null_removes() -> None:
    below: dict[str, Any] = {"a": 1, "b": {"c": 2, "d": [1, 2], "e": None}, "f": {"g": 1}}
    above = {"a": None, "b": {"d": [3]}, "f": 5, "h": {"i": 1}}
    assert merged(below, above) == {"b": {"c": 2, "d": [3], "e": None}, "f": 5, "h": {"i": 1}}
    assert below["b"]["d"] == [1, 2]


def test_each_setting_is_merged_or_the_study_where_there_is_none() -> None:
    study = {"rounds": 5, "settings": {"a": {"alpha": 0, "lr": 1}, "b": None}}
    options = {"lr": 2}
    assert merged_in_each_setting(study, options)["settings"] == {"a": {"alpha": 0, "lr": 2}, "b": {"lr": 2}}
    assert merged_in_each_setting({"lr": 1}, options) == {"lr": 2}


# --- reading ------------------------------------------------------------------------------------------------------


def test_a_file_is_read_with_what_items_share() -> None:
    table, sketch = read_presets(TEXT, "mine.yaml").values()
    assert table.id == "mine/table-1" and table.scales == SCALES and table.not_stated == ("the seeds",)
    assert sketch.scales == () and sketch.nothing == "it is a sketch"
    paper, small = table.content("paper"), table.content("small")
    assert paper["rounds"] == 1000 and paper["clients"] == 100 and paper["dataset"] == "cifar10"
    assert small["rounds"] == 20 and small["settings"] == {"a": {"alpha": 0, "lr": 0.1, "model": "cnn-small"}}
    assert small["report"] == {"reference": "fedavg"}
    assert paper["title"] == "mine/table-1: something"
    assert small["title"] == "mine/table-1, at small scale: something"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed("paper: mine", ""), "mine.yaml: `paper` is missing"),
        (changed("shows: something", "shown: something"), "mine.yaml, table-1: .*shows"),
        (
            changed("nothing to run: it is a sketch", "not stated: []"),
            "table-2: write either `study` or `nothing to run`",
        ),
        (changed("note: fewer rounds", ""), "table-1, small: say under `note`"),
        (changed("each setting:", "each settings:"), "table-1, small: .*each setting"),
        (changed("[the seeds]", "the seeds"), "not stated must be a list"),
        (changed("  table-2:", "  table-1:"), "'table-1' stands there twice"),
        (changed("*base", "*bass"), "not YAML that can be used"),
        ("- a list", "mine.yaml must hold"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_presets(text, "mine.yaml")


def test_what_is_wrong_with_a_study_is_told_with_its_preset() -> None:
    preset = read_presets(changed("rounds: 1000", "round: 1000"), "mine.yaml")["table-1"]
    with pytest.raises(ConfigError, match=r"mine/table-1 at paper scale, round: .*rounds"):
        preset.resolved("paper")


def test_an_unknown_preset_paper_or_scale_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="fedgloss/table-3"):
        find_preset("fedgloss/tabel-3")
    with pytest.raises(ConfigError, match="fedgloss"):
        presets_of("fedglos")
    with pytest.raises(ConfigError, match="small"):
        scale_named("smal")
    assert scale_named(None) == "small"


def test_aliases_are_for_files_of_the_package_alone() -> None:
    assert read_yaml("a: &x {b: 1}\nc: {<<: *x, d: 2}", aliases=True)["c"] == {"b": 1, "d": 2}
    with pytest.raises(ConfigError, match="aliases"):
        read_yaml("a: &x 1\nb: *x")


# --- smoke --------------------------------------------------------------------------------------------------------


def test_smoke_is_synthetic_small_and_has_all_methods() -> None:
    smoke = read_presets(TEXT, "mine.yaml")["table-1"].content("smoke")
    assert smoke["methods"] == {"fedavg": None, "fedsam": None} and smoke["seeds"] == [0] and smoke["rounds"] == 2
    (setting,) = smoke["settings"].values()
    assert setting["dataset"] == "synthetic" and setting["set"]["data.like"] == "cifar10"
    assert setting["alpha"] == 0 and setting["model"] == "cnn-small"
    assert "smoke test on synthetic data" in smoke["title"]


def test_measurements_and_pictures_become_cheap() -> None:
    report = {
        "accuracy": "round 500",
        "published": "mine/table-1",
        "flatness": ["lambda_max", "lpf(samples=50, sigma=0.1)"],
        "figures": {
            "around": {"draw": "landscape", "points": 51, "settings": ["b"]},
            "spectrum": {"draw": "flatness", "measure": "spectrum(k=50)"},
        },
    }
    study = {"dataset": "cifar10", "methods": ["fedavg"], "settings": {"a": {}, "b": {}}, "report": report}
    study["watch"] = "lambda_max:50,lpf(samples=20):100"
    smoke = smoke_of(study)
    assert smoke["watch"] == "lambda_max(most=8):1,lpf(samples=2):1"
    assert smoke["report"]["flatness"] == "lambda_max(most=8), lpf(sigma=0.1, samples=2)"
    around, spectrum = smoke["report"]["figures"].values()
    assert around["points"] == 3 and around["settings"] == ["a"]
    assert spectrum["measure"] == "spectrum(k=3, most=8)" or "k=3" in spectrum["measure"]
    assert smoke["report"]["accuracy"] == "final" and "published" not in smoke["report"]


@pytest.mark.parametrize("name", ["clients", "per_round", "local_epochs"])
def test_what_a_study_is_about_still_differs(name: str) -> None:
    settings = {"few": {name: 1}, "many": {name: 20}, "most": {name: 50}}
    study = {"dataset": "cifar10", "methods": ["fedavg"], "settings": settings, "report": {"against": name}}
    values = [setting[name] for setting in smoke_of(study)["settings"].values()]
    assert len(values) == 2 and values[0] != values[1]


@pytest.mark.parametrize(
    ("dataset", "model"),
    [("idda", "bisenetv2"), ("dbpedia14", "textcnn"), ("pacs", "cnn-small"), ("digits", "cnn-small")],
)
def test_every_kind_of_data_has_a_smoke(dataset: str, model: str) -> None:
    smoke = smoke_of({"dataset": dataset, "methods": ["fedavg"], "rounds": 9, "set": {"data.target": "sketch"}})
    (setting,) = smoke["settings"].values()
    assert setting["model"] == model
    assert ("data.target" in setting["set"]) == (dataset == "pacs")
    study_of(smoke)


# --- commands -----------------------------------------------------------------------------------------------------


def test_the_list_has_every_item_with_its_reason() -> None:
    listed = json.loads(flatfed("study", "list", "--json").out)
    assert {entry["id"].partition("/")[0] for entry in listed} == set(paper_names())
    by_id = {entry["id"]: entry for entry in listed}
    assert by_id["fedgloss/table-3"]["scales"] == list(SCALES)
    assert by_id["fedgloss/fig-3"]["scales"] == [] and "sketch" in by_id["fedgloss/fig-3"]["nothing to run"]
    text = flatfed("study", "list", "fedgloss").out
    assert "fedgloss/table-3" in text and "nothing to run" in text
    unknown = flatfed("study", "list", "fedglos")
    assert unknown.code == 2 and "fedgloss" in unknown.err


@pytest.mark.parametrize("scale", SCALES)
def test_a_written_file_is_the_same_study(tmp_path: Path, scale: Scale) -> None:
    file = tmp_path / "mine.yaml"
    assert flatfed("study", "write", "fedgloss/table-3", str(file), "--scale", scale).code == 0
    assert read_study(file) == find_preset("fedgloss/table-3").resolved(scale)
    again = flatfed("study", "write", "fedgloss/table-3", str(file))
    assert again.code == 2 and "exists" in again.err


def test_a_preset_is_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = flatfed("study", "run", "fedgloss/fig-20", "--scale", "smoke", "--jobs", "1")
    assert done.code == 0, done.err
    assert "differs from the paper: synthetic data" in done.err and "not stated: " in done.err
    assert "smoke test on synthetic data" in done.out
    record = json.loads((tmp_path / "runs" / "fedgloss-fig-20-smoke" / "preset.json").read_text())
    assert record["preset"] == "fedgloss/fig-20" and record["scale"] == "smoke"
    assert "synthetic" in record["differs from the paper"] and record["not stated"]
    shown = flatfed("study", "show", "runs/fedgloss-fig-20-smoke")
    assert shown.code == 0 and "synthetic" in shown.out


def test_a_check_knows_presets_too() -> None:
    done = flatfed("study", "check", "fedgloss/fig-20", "--scale", "smoke")
    assert done.code == 0 and "differs from the paper" in done.err and "cells" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "fedgloss/tabel-3"), "fedgloss/table-3"),
        (("run", "fedgloss/fig-3"), "nothing to run: The figure is a sketch"),
        (("check", "no-such.yaml"), "no-such.yaml"),
        (("run", "fedgloss/table-3", "--scale", "tiny"), "small"),
        (("write", "fedgloss/fig-3", "new.yaml"), "nothing to run"),
    ],
)
def test_what_cannot_be_run_is_a_sentence(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = flatfed("study", *arguments)
    assert done.code == 2 and words in done.err
    assert "Traceback" not in done.err and not list(tmp_path.iterdir())


def test_an_existing_file_is_a_file_and_has_no_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedgloss").mkdir()
    (tmp_path / "fedgloss" / "table-3").write_text("methods: [fedavg]\nround: 2\n")
    read = flatfed("study", "check", "fedgloss/table-3")
    assert read.code == 2 and "line 2" in read.err
    scaled = flatfed("study", "check", "fedgloss/table-3", "--scale", "small")
    assert scaled.code == 2 and "--scale" in scaled.err


def test_a_folder_may_have_the_name_of_its_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedgloss/table-3").mkdir(parents=True)
    opened = opened_study(Path("fedgloss/table-3"), "smoke", Path("fedgloss/table-3"), False)
    assert opened.running.study.title.startswith("fedgloss/table-3, smoke")
    with pytest.raises(ConfigError, match="fedgloss: "):
        opened_study(Path("fedgloss"), None, None, False)
