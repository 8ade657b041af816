"""What `export` and `predict` write never takes the place of other files, is the model meant, and says what it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import torch

import flatfed as ff
from cli.command import SMALL, fingerprint, flatfed, refused

TABLE = ("run", "table", "fedavg", "--set", "data.path=t.csv", "--clients", "2", "--rounds", "2", "--workers", "0")


def table() -> None:
    ages = [*range(20, 80), 33]  # were each there once, it would look like an id
    rows = [f"{age},{'fm'[age % 3 == 0]},{age / 4 + 0.5},{'high' if age > 50 else 'low'}" for age in ages]
    Path("t.csv").write_text("\n".join(["age,sex,dose,risk", *rows]) + "\n")


def test_predictions_are_not_written_over_what_they_are_of() -> None:
    table()
    assert flatfed(*TABLE, "--set", "data.target=risk", "--out", "r").code == 0
    before = Path("t.csv").read_bytes()
    refused(flatfed("predict", "r", "t.csv", "--csv", "./t.csv"), "--csv t.csv", "would be lost")
    assert Path("t.csv").read_bytes() == before
    assert flatfed("predict", "r", "t.csv", "--csv", "out.csv").code == 0


def test_an_export_replaces_only_an_earlier_export(run: Path) -> None:
    Path("project").mkdir()
    Path("project/README.md").write_text("my project\n")
    Path("notes.md").write_text("my notes\n")
    Path("weights.pt").write_bytes(b"mine")
    places = {"project": "project/README.md", "notes.pt": "notes.md", "weights.pt": "weights.pt"}
    before = fingerprint(Path())
    for out, lost in places.items():
        refused(flatfed("export", run, "--out", out), f"{lost} is there already")
    assert fingerprint(Path()) == before
    for _ in range(2):
        assert flatfed("export", run, "--out", "model.pt").code == 0
        assert flatfed("export", run, "--out", "folder").code == 0
    refused(flatfed("export", "notes.md"), "notes.md is not a run directory")


def test_the_best_model_is_exported_and_predicts() -> None:
    best = ("--validation", "0.2", "--keep-best", "--monitor", "validation_loss:max", "--out", "r")
    assert flatfed("run", "digits", "fedavg", *SMALL, *best).code == 0
    assert flatfed("export", "r", "--model", "best", "--out", "best.pt").code == 0
    kept = ff.load_run("r").best
    assert kept is not None and kept.round < 3
    state = torch.load("best.pt", weights_only=True)
    assert torch.equal(torch.cat([tensor.flatten() for tensor in state.values()]), kept.vector)
    assert f"Rounds behind it: {kept.round} of 3" in Path("best.md").read_text()
    np.save("one.npy", np.zeros((1, 1, 8, 8), np.uint8))
    predicted = flatfed("predict", "r", "one.npy", "--model", "best", "--json").json
    (expected,) = ff.load_run("r", best=True).predict("one.npy")
    assert list(predicted[0]["probabilities"].values()) == list(expected.outputs)


def test_the_card_of_a_run_that_ended_early_has_its_averages() -> None:
    ended = ("--rounds", "9", "--stop-when", "train_loss<99", "--out", "r")
    assert flatfed("run", "digits", "fedavg", *SMALL, *ended).code == 0
    assert flatfed("export", "r", "--out", "m.pt").code == 0
    accuracy = f"{100 * ff.load_run('r').summary['accuracy_last_mean']:.2f}"
    assert f"| test accuracy in % | {accuracy} | {accuracy} |" in Path("m.md").read_text()


def test_the_card_of_a_table_says_what_goes_in_and_comes_out() -> None:
    table()
    assert flatfed(*TABLE, "--set", "data.target=dose", "--set", "data.drop=risk", "--out", "r").code == 0
    assert flatfed("export", "r", "--out", "m.pt").code == 0
    card = Path("m.md").read_text()
    preprocessing = ff.load_run("r").preprocessing
    assert preprocessing is not None
    target = preprocessing.to_dict()["target"]
    assert f"dose is output * {target['std']!r} + {target['mean']!r}" in card
    assert "Columns: age, sex." in card and "Preparation of inputs: none" not in card


def test_a_model_of_hugging_face_beside_runs_is_no_run(run: Path) -> None:
    shutil.copytree(run, "runs/one")
    Path("runs/model").mkdir()
    Path("runs/model/config.json").write_text('{"model_type": "bert"}')
    Path("runs/model/model.safetensors").touch()
    assert flatfed("show", "runs").code == 0
    refused(flatfed("bundle", "runs/model"), "it holds a model of Hugging Face")
