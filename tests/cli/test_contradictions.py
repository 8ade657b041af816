"""Options that are empty, contradict each other, do not suit the data, or name files as seen from one folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.command import SMALL, flatfed, read_json, refused

RUN = ("run", "digits", "fedavg", *SMALL)


@pytest.mark.parametrize("option", ["--model", "--partition", "--data-dir", "--weights"])
def test_an_empty_name(option: str) -> None:
    refused(flatfed(*RUN, option, ""), option, "is empty")
    refused(flatfed("compare", "digits", "fedavg", *SMALL, option, " "), option, "is empty")


def test_augmentation_that_is_asked_for_and_refused() -> None:
    refused(flatfed(*RUN, "--augment", "crop", "--no-augment"), "--augment and --no-augment contradict")
    assert flatfed(*RUN, "--augment", "none", "--no-augment", "--out", "a").code == 0


def test_the_command_line_goes_before_the_file() -> None:
    Path("file.yaml").write_text("augment: crop\n")
    assert flatfed(*RUN, "--config", "file.yaml", "--no-augment", "--out", "a").code == 0
    assert read_json(Path("a/config.json"))["task"]["augment"] is False


def test_an_augmentation_that_does_not_suit_the_data_is_refused_before_training() -> None:
    refused(flatfed(*RUN, "--augment", "scale-crop"), "--augment scale-crop does not suit digits")
    assert not Path("runs").exists()


@pytest.mark.parametrize("setting", ["modle.stem=cifar", "dat.x=1"])
def test_a_setting_of_nothing_known(setting: str) -> None:
    refused(flatfed(*RUN, "--set", setting), "nothing called", "partition.name", "model.name", "data.name")


def test_a_partition_file_is_found_again_from_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [list(range(start, start + 100)) for start in range(0, 500, 100)]
    Path("split.json").write_text(json.dumps(parts))
    small = [option for option in SMALL if option not in ("--clients", "5")]
    outcome = flatfed(
        "run", "digits", "fedavg", *small, "--partition", "file", "--set", "partition.path=split.json", "--out", "a"
    )
    assert outcome.code == 0, outcome.err
    Path("elsewhere").mkdir()
    shutil.move("a", "elsewhere/a")
    monkeypatch.chdir("elsewhere")
    assert flatfed("resume", "a", "--rounds", "4").code == 0


def test_a_table_of_texts_is_found_again_from_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train.csv", "test.csv"):
        rows = [f"{number % 2},word{number % 7} and word{number % 3}" for number in range(40)]
        Path(name).write_text("label,text\n" + "\n".join(rows) + "\n")
    files = ("--set", "data.path=train.csv", "--set", "data.test=test.csv", "--set", "data.header=true")
    small = ("--rounds", "1", "--clients", "2", "--per-round", "1", "--workers", "0")
    outcome = flatfed("run", "texts", "fedavg", *small, *files, "--out", "a")
    assert outcome.code == 0, outcome.err
    Path("elsewhere").mkdir()
    shutil.move("a", "elsewhere/a")
    monkeypatch.chdir("elsewhere")
    outcome = flatfed("evaluate", "a")
    assert outcome.code == 0, outcome.err
