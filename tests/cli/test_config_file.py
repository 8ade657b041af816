"""Precedence: command line over file over default, for options and for settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.command import flatfed, read_json, refused

MINIMAL = ["--rounds", "1", "--clients", "5", "--per-round", "1", "--workers", "0", "--model", "logreg"]
FILE = """
rounds: 2
clients: 5
per-round: 2
workers: 0
model: logreg
lr: 0.05
batch_size: full
weight-decay: 1e-3
augment: false
set:
  rho_server: 0.3
  beta: 20
  client_opt.rho: 0.07
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text(FILE)
    return path


def configuration(*arguments: object) -> dict[str, Any]:
    outcome = flatfed(*arguments, "--out", "out")
    assert outcome.code == 0, outcome.err
    return read_json(Path("out/config.json"))


def test_the_file_goes_before_the_default(file: Path) -> None:
    config = configuration("run", "digits", "fedgloss+sam", "--config", file)
    settings, algorithm = config["settings"], config["algorithm"]
    assert (settings["rounds"], settings["lr"], settings["weight_decay"]) == (2, 0.05, 1e-3)
    assert settings["batch_size"] is None
    assert config["sampler"] == {"id": "uniform", "count": 2}
    assert (config["task"]["clients"], config["task"]["model"], config["task"]["augment"]) == (5, "logreg", False)
    assert (algorithm["rho_server"], algorithm["beta"]) == (0.3, 20.0)
    assert algorithm["client_opt"] == {"id": "sam", "rho": 0.07, "space": "trained"}
    assert (settings["local_epochs"], settings["momentum"], settings["evaluate_every"]) == (1, 0.0, 10)
    assert (algorithm["dual"], algorithm["admm"]) == ("mean", True)


def test_the_command_line_goes_before_the_file(file: Path) -> None:
    given = ["--rounds", "1", "--weight-decay", "0.5", "--batch-size", "32", "--augment", "--alpha", "0"]
    settings = ["--set", "beta=7", "--set", "dual=official", "--set", "client_opt.rho=0"]
    config = configuration(*["run", "digits", "fedgloss+sam", *given, *settings], "--config", file)
    assert (config["settings"]["rounds"], config["settings"]["weight_decay"]) == (1, 0.5)
    assert (config["settings"]["batch_size"], config["settings"]["lr"]) == (32, 0.05)
    assert config["task"]["augment"] is True
    assert config["task"]["partition"]["id"] == "dirichlet"
    assert config["task"]["partition"]["alpha"] == 0.0
    algorithm = config["algorithm"]
    assert (algorithm["rho_server"], algorithm["beta"], algorithm["dual"]) == (0.3, 7.0, "official")
    assert algorithm["client_opt"]["rho"] == 0.0


def test_alpha_on_the_command_line_goes_before_the_partition_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "partition.yaml").write_text("set: {partition.alpha: 2}\n")
    config = configuration(
        "run", "digits", "fedavg", *MINIMAL, "--config", tmp_path / "partition.yaml", "--alpha", "0.3"
    )
    assert config["task"]["partition"]["alpha"] == 0.3


def test_two_settings_of_one_name_are_refused() -> None:
    refused(flatfed("run", "digits", "fedprox", "--set", "mu=1", "--set", "mu=2", *MINIMAL), "mu is given twice")


def test_a_partition_by_its_settings() -> None:
    config = configuration(
        "run", "digits", "fedavg", *MINIMAL, "--partition", "pathological", "--set", "partition.classes_per_client=2"
    )
    assert config["task"]["partition"] == {"id": "pathological", "classes_per_client": 2}


def test_a_comparison_takes_seeds_and_scoped_settings_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "comparison.yaml"
    file.write_text("seeds: [3, 5]\nset: {rho: 0.2, 'fedasam:rho': 0.4}\n")
    outcome = flatfed("compare", "digits", "fedsam", "fedasam", *MINIMAL, "--config", file, "--out", "out")
    assert outcome.code == 0, outcome.err
    written = read_json(Path("out/comparison.json"))
    assert written["seeds"] == [3, 5]
    assert [method["algorithm"]["rho"] for method in written["methods"]] == [0.2, 0.4]


def test_results_as_json_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "json.yaml").write_text("json: true\n")
    outcome = flatfed("run", "digits", "fedavg", *MINIMAL, "--config", tmp_path / "json.yaml", "--out", "out")
    assert outcome.code == 0, outcome.err
    assert outcome.json["runs"][0]["rounds"] == 1


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    config = configuration("run", "digits", "fedavg", *MINIMAL, "--config", tmp_path / "empty.yaml")
    assert config["settings"]["lr"] == 0.1
