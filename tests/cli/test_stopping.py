"""Early stopping, the best model and the validation split on the command line, in files and in comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command import SMALL, flatfed
from flatfed.runs.directory import RunDirectory

RUN = ("run", "digits", "fedavg", *SMALL)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_that_ends_early_is_finished_and_says_why() -> None:
    ended = flatfed(*RUN, "--rounds", "9", "--validation", "0.2", "--stop-when", "validation_loss<99", "--out", "r")
    assert ended.code == 0, ended.err
    why = "finished: ended early, after round 1 of 9: validation_loss<99.0 was met"
    assert why in ended.err and "test data" not in ended.err
    assert "by history stop when validation_loss<99.0" in " ".join(ended.err.split())
    shown = flatfed("show", "r")
    assert "finished early (round 1)" in " ".join(shown.out.split()) and why in shown.err
    assert flatfed("resume", "r").code == 0
    assert len(RunDirectory.open(Path("r")).rows) == 1
    assert flatfed("resume", "r", "--rounds", "3").code == 0
    assert len(RunDirectory.open(Path("r")).rows) == 3


def test_the_best_model_is_evaluated_and_measured() -> None:
    held_out = ("--validation", "0.2", "--validation-split", "global")
    assert flatfed(*RUN, *held_out, "--keep-best", "--monitor", "validation_accuracy:min", "--out", "r").code == 0
    values = [row["validation_accuracy"] for row in RunDirectory.open(Path("r")).rows]
    round = values.index(min(values)) + 1
    best = flatfed("evaluate", "r", "--model", "best", "--json").json
    assert (best["round"], best["tests"]["validation_accuracy"]) == (round, min(values))
    assert flatfed("evaluate", "r", "--json").json["round"] == 3
    measured = flatfed("flatness", "r/checkpoints/best", "--measure", "lpf(samples=1)", "--samples", "20", "--json")
    assert measured.code == 0, measured.err


def test_mistakes_are_told_in_a_sentence_and_leave_nothing() -> None:
    wrong = {
        ("--stop-when", "test_acuracy>0.9"): "--stop-when: unknown column of the history 'test_acuracy'; did you mean",
        ("--stop-when", "test_accuracy"): "test_accuracy>0.9",
        ("--patience", "3"): "--patience needs something to go by that is no test: hold out a share of the examples, "
        "--validation 0.1",
        ("--keep-best",): "--keep-best needs something to go by",
        ("--lr-plateau", "factor=3"): "factor must be",
        ("--validation", "1.5"): "--validation must be between 0 and 1",
        ("--monitor", "test_loss"): "--monitor is what --patience, the best model that is kept or a plateau",
        (
            "--min-delta",
            "0.1",
            "--keep-best",
            "--monitor",
            "train_loss",
        ): "--min-delta has no effect without --patience",
        ("--validation-split", "client"): "--validation-split says how a share for --validation is held out",
    }
    for options, sentence in wrong.items():
        refused = flatfed(*RUN, *options, "--out", "r")
        assert refused.code == 2, options
        assert sentence in " ".join(refused.err.split()), options
        assert not Path("r").exists()


@pytest.mark.filterwarnings("default")
def test_a_test_column_is_told() -> None:
    told = flatfed(*RUN, "--patience", "2", "--monitor", "test_loss", "--out", "r")
    assert told.code == 0
    assert "--patience goes by test_loss: this selects on test data" in " ".join(told.err.split())


def test_a_comparison_from_a_file_keeps_its_rules_when_it_grows() -> None:
    options = {"validation": 0.2, "stop_when": ["validation_loss<99"], "lr_plateau": {"factor": 0.5, "patience": 1}}
    Path("options.yaml").write_text(json.dumps(options))
    compare = ("compare", "digits", "fedavg", "fedsam", *SMALL, "--config", "options.yaml", "--out", "c")
    assert flatfed(*compare).code == 0
    grown = flatfed("resume", "c", "--rounds", "5")
    assert grown.code == 0, grown.err
    for run in ("c/fedavg/seed-0", "c/fedsam/seed-0"):
        directory = RunDirectory.open(Path(run))
        assert (len(directory.rows), directory.config["settings"]["rounds"]) == (1, 5)
        assert "after round 1 of 5" in directory.status()["reason"]
    # A record says what to ask for again, the validation set too.
    assert flatfed("run", "--config", "c/fedavg/seed-0/config.json", "--out", "again").code == 0
    assert RunDirectory.open(Path("again")).rows[0].keys() == RunDirectory.open(Path("c/fedavg/seed-0")).rows[0].keys()


def test_a_file_of_options_is_held_to_it_and_a_record_is_not() -> None:
    Path("options.yaml").write_text("monitor: train_loss\n")
    refused = flatfed(*RUN, "--config", "options.yaml", "--out", "r")
    assert refused.code == 2 and "--monitor is what --patience" in " ".join(refused.err.split())
    assert flatfed(*RUN, "--config", "options.yaml", "--patience", "9", "--out", "r").code == 0
    Path("usual.yaml").write_text("validation_split: client\nmin_delta: 0\n")
    assert flatfed(*RUN, "--config", "usual.yaml", "--out", "usual").code == 0
    # As earlier versions took it.
    record = json.loads(Path("usual/config.json").read_text())
    record["settings"] |= {"monitor": "train_loss", "min_delta": 0.5}
    record["task"]["validation_split"] = "global"
    Path("record.json").write_text(json.dumps({name: value for name, value in record.items() if name != "seal"}))
    again = flatfed("run", "--config", "record.json", "--out", "again")
    assert again.code == 0, again.err
    grown = flatfed("resume", "again", "--rounds", "4")
    assert grown.code == 0, grown.err
    assert RunDirectory.open(Path("again")).config["settings"]["monitor"] == "train_loss"
