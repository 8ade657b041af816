"""`flatfed export`, `predict`, `bundle` and `verify` as a user types them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

import flatfed as ff
from cli.command import flatfed, read_history, refused
from flatfed.data.catalogue import load
from records import rewrite_rows, unmark


def test_export_writes_model_and_card(run: Path) -> None:
    outcome = flatfed("export", run)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [f"{run}/export/model.safetensors", f"{run}/export/README.md"]
    expected = ff.load_run(run).model().state_dict()
    state = load_file(run / "export/model.safetensors")
    assert all(torch.equal(tensor, expected[name]) for name, tensor in state.items())
    card = (run / "export/README.md").read_text()
    final = read_history(run)[-1]["test_accuracy"]
    assert f"| test accuracy in % | {100 * final:.2f} |" in card
    assert "Not measured; `flatfed flatness RUN`" in card


def test_a_card_has_the_measurements_that_were_kept(run: Path) -> None:
    measured = flatfed("flatness", run, "--measure", "loss,client_accuracy", "--json")
    assert measured.code == 0, measured.err
    assert flatfed("export", run, "--out", "m.pt").code == 0
    card = Path("m.md").read_text()
    clients = ff.load_run(run).client_metrics()
    lowest = 100 * min(entry["accuracy"] for entry in clients)
    assert f"lowest {lowest:.4g} %" in card and "(5 clients)" in card
    assert "| loss | " in card


def test_what_cannot_be_exported(run: Path) -> None:
    refused(flatfed("export", run, "--format", "hf"), "is no model of Hugging Face")
    refused(flatfed("export", run, "--format", "tflite"), "'tflite' is not one of")
    refused(flatfed("export", run, "--client", "2"), "--client: no part of the model")
    refused(flatfed("export", run, "--raw-inputs"), "--raw-inputs is for onnx")
    refused(flatfed("export", run, "--out", run / "config.json"), "--out")
    refused(flatfed("export", "nothing"), "nothing is not a run directory")
    assert not (run / "export").exists()


def test_predict_as_table_json_and_csv(run: Path) -> None:
    pool = load("digits")
    inputs, targets = pool.test.batch(torch.arange(len(pool.test)))
    np.save("test.npy", inputs.numpy())
    outcome = flatfed("predict", run, "test.npy", "--json", "--csv", "out.csv")
    assert (outcome.code, outcome.err) == (0, "")
    right = [entry["class"] == target for entry, target in zip(outcome.json, targets.tolist(), strict=True)]
    assert sum(right) / len(right) == read_history(run)[-1]["test_accuracy"]
    first = outcome.json[0]
    assert first["probabilities"][first["class_name"]] == first["probability"]
    with Path("out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == [entry["class_name"] for entry in outcome.json]
    assert float(rows[0]["probability"]) == first["probability"]
    table = flatfed("predict", run, "test.npy", "--top", "2").out.splitlines()
    assert table[1].split() == ["input", "class", "%", "class", "%"]
    assert first["class_name"] in table[3]
    refused(flatfed("predict", run, "none.png"), "none.png is missing")
    refused(flatfed("predict", run), "FILE...")


def test_bundle_and_verify_with_their_codes(run: Path) -> None:
    outcome = flatfed("bundle", run, "--out", "good.zip")
    assert (outcome.code, outcome.out) == (0, "good.zip\n")
    verified = flatfed("verify", "good.zip", "--rounds", "1", "--workers", "0")
    assert verified.code == 0
    assert verified.out.splitlines()[0].split() == ["outcome", "verified"]
    rows = read_history(run)
    unmark(run)
    rewrite_rows(run, [rows[0] | {"update_norm": 0.5}, *rows[1:]])
    assert flatfed("bundle", run, "--out", "forged.zip").code == 0
    forged = flatfed("verify", "forged.zip", "--workers", "0", "--json")
    assert forged.code == 1
    assert forged.json["difference"]["round"] == 1 and forged.json["difference"]["what"] == "column update_norm"
    environment = json.loads((run / "environment.json").read_text())
    environment["packages"]["torch"] = "1.0"
    environment["format"] = 1
    environment.pop("seal")
    (run / "environment.json").write_text(json.dumps(environment))
    assert flatfed("bundle", run, "--out", "older.zip").code == 0
    older = flatfed("verify", "older.zip", "--workers", "0")
    assert older.code == 2 and "torch 1.0, now" in older.out
    assert older.out.startswith("outcome") and "versions differ: round 1 differs in column update_norm" in older.out


def test_what_cannot_be_bundled_or_verified(run: Path) -> None:
    Path("text.zip").write_text("no archive")
    refused(flatfed("verify", "text.zip"), "is no bundle, or it is damaged")
    refused(flatfed("verify", "none.zip"), "none.zip is missing")
    refused(flatfed("bundle", run, "--with-data"), "--with-data is for runs made from tensors")
    refused(flatfed("bundle", run, "--out", "text.zip"), "text.zip is there already; choose another --out")
