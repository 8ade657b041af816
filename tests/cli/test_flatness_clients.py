"""`flatfed flatness` of clients: rows by client and class, other forms of the table, and maps of their features."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import torch

import flatfed as ff
from cli.command import SMALL, Outcome, flatfed, on_terminal, read_history, read_json, refused

pytest.importorskip("matplotlib")

BY_CLIENT = ("--measure", "local_global", "--by-client")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two methods over clients that hold one digit each."""
    root = tmp_path_factory.mktemp("pair")
    for method in ("fedavg", "fedsam"):
        outcome = flatfed("run", "digits", method, *SMALL, "--alpha", 0, "--clients", 10, "--out", root / method)
        assert outcome.code == 0, outcome.err
    return [root / "fedavg", root / "fedsam"]


def table(outcome: Outcome) -> list[list[str]]:
    assert outcome.code == 0, outcome.err
    return [line.split() for line in outcome.out.partition("losses over")[0].splitlines() if line.strip(" ─")]


def test_local_and_global_lambda_by_client_and_class(pair: list[Path]) -> None:
    outcome = flatfed("flatness", *pair, *BY_CLIENT)
    [methods, heads, *rows] = table(outcome)
    assert methods == ["fedavg", "fedavg", "fedsam", "fedsam"]
    assert heads == ["client", "holds", *["lambda_local", "lambda_global"] * 2]
    with ff.laboratory(pair[0]) as lab:
        result = lab.measure("local_global")["local_global"]
        task = lab.surface.task
    took = sorted(read_history(pair[0])[-1]["clients"])
    for client, row in zip(took, rows, strict=False):
        [digit] = set(task.examples(client).batch(torch.arange(3))[1].tolist())
        assert row[:3] == [str(client), "digit", str(digit)]
        assert row[3:5] == [f"{result.clients[name][client]:.5g}" for name in ("lambda_local", "lambda_global")]
    assert rows[-1][:3] == ["mean", *(f"{result.numbers[n]:.5g}" for n in ("lambda_local", "lambda_global"))]
    assert len(rows) == len(took) + 1
    assert "losses over: training data of all clients" in outcome.out


def test_the_same_as_markdown_csv_and_json(pair: list[Path]) -> None:
    markdown, values = (flatfed("flatness", *pair, *BY_CLIENT, "--format", form) for form in ("markdown", "csv"))
    actual = flatfed("flatness", *pair, "--measure", "local_global", "--json").json
    rows = list(csv.DictReader(io.StringIO(values.out)))
    assert markdown.out.splitlines()[0].startswith("| client | holds | fedavg lambda_local | fedavg lambda_global |")
    assert len(markdown.out.splitlines()) == 2 + len(rows)
    for row in rows[:-1]:
        held = actual[0]["client_classes"][row["client"]]
        assert (held["name"], held["share"]) == (row["holds"], 1.0)
        assert held["name"] == f"digit {held['number']}"
        local = actual[1]["results"]["local_global"]["clients"]["lambda_local"][row["client"]]
        assert float(row["fedsam lambda_local"]) == local


def test_the_plain_table_has_other_forms_too(pair: list[Path]) -> None:
    outcome = flatfed("flatness", *pair, "--measure", "loss", "--format", "csv")
    [head, loss, _] = list(csv.reader(io.StringIO(outcome.out)))
    assert head == ["", "fedavg", "fedsam"]
    with ff.laboratory(pair[0]) as lab:
        assert (loss[0], float(loss[1])) == ("loss", lab.surface.loss())
    assert flatfed("flatness", *pair, "--measure", "loss", "--format", "markdown").out.startswith(
        "|  | fedavg | fedsam |"
    )


def test_clients_on_a_narrow_terminal(pair: list[Path]) -> None:
    outcome = on_terminal("flatness", *pair, *BY_CLIENT, columns=70)
    assert outcome.code == 0
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    assert outcome.out.count("mean") == 2, "a table for each run"


def test_json_has_classes_only_of_clients_that_were_measured(pair: list[Path]) -> None:
    [actual] = flatfed("flatness", pair[0], "--measure", "loss", "--json").json
    assert "client_classes" not in actual


def test_a_map_of_the_global_and_clients_models(
    pair: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr("flatfed.experiments.measuring.feature_maps.MAPPED", 150)
    outcome = flatfed("flatness", *pair, "--measure", "loss", "--figures", "figures", "--tsne-clients", 2)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "figures/client-features.png").read_bytes().startswith(b"\x89PNG")
    said = (tmp_path / "figures/client-features.svg").read_text()
    took = sorted(read_history(pair[0])[-1]["clients"])
    assert all(name in said for name in ("global model", "digit 3", *(f"client {k}" for k in took)))
    assert "under 3 models together" in said


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--tsne-clients", "2"), ["--tsne-clients says what --figures DIR draws; give that too"]),
        (("--tsne-clients", "0", "--figures", "f"), ["--tsne-clients"]),
        (("--tsne-clients", "7", "--figures", "f"), ["at most 6 clients, not 7"]),
        (("--format", "csv", "--json"), ["--format and --json"]),
        (("--format", "xml"), ["--format"]),
        (("--by-client", "--measure", "loss"), ["has a number for each client; measure local_global"]),
    ],
)
def test_options_that_cannot_be_used(options: tuple[str, ...], parts: list[str], run: Path) -> None:
    chosen = () if "--measure" in options else ("--measure", "loss")
    refused(flatfed("flatness", run, *chosen, *options), *parts)
    assert not Path("f").exists()
    assert read_json(run / "config.json")
