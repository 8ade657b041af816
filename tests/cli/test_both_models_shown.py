"""A run with weight averaging: the global model's metrics in `evaluate`, `show` and the result files."""

from __future__ import annotations

import csv
from pathlib import Path

import matplotlib
import pytest

from cli.command import SMALL, flatfed, read_history, read_json

KINDS = ("final", "last_mean", "best")


@pytest.fixture(scope="module")
def averaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three rounds, of which the first two are averaged by the end of the second."""
    out = tmp_path_factory.mktemp("averaged") / "run"
    outcome = flatfed("run", "digits", "fedavg+wima", *SMALL, "--set", "average.window=2", "--out", out)
    assert outcome.code == 0, outcome.err
    return out


def test_rows_and_results_have_both(averaged: Path) -> None:
    rows = read_history(averaged)
    assert ["global_accuracy" in row for row in rows] == [False, True, True]
    models = [row.get("global_accuracy", row["test_accuracy"]) for row in rows]
    [record] = read_json(averaged / "results.json")["runs"]
    expected = [models[-1], pytest.approx(sum(models) / 3), max(models)]
    assert [record[f"global_accuracy_{kind}"] for kind in KINDS] == expected
    with (averaged / "results.csv").open(newline="") as file:
        [line] = csv.DictReader(file)
    assert [float(line[f"global_accuracy_{kind}"]) for kind in KINDS] == expected


def test_evaluate_measures_both(averaged: Path) -> None:
    row = read_history(averaged)[-1]
    actual = flatfed("evaluate", averaged, "--json").json["tests"]
    assert actual == {name: value for name, value in row.items() if name.startswith(("test_", "global_"))}
    assert len(actual) == 6
    assert f"{100 * row['global_accuracy']:.2f}" in flatfed("evaluate", averaged).out


def test_both_are_drawn(averaged: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    file = tmp_path / "both.svg"
    outcome = flatfed("show", averaged, "--figure", file, "--plot", "test_accuracy,global_accuracy,client_seconds")
    assert outcome.code == 0, outcome.err
    assert "test accuracy of the global model (%)" in file.read_text()
