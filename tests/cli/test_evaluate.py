"""`flatfed evaluate`: a run's model on the test sets, by class, and on each client's own examples."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import Outcome, fingerprint, flatfed, on_terminal, read_history, read_json, refused
from flatfed.experiments.catalogue import TaskRecipe

FIGURES = ("test_loss", "test_accuracy", "test_class_accuracy")
NORMED = ("--rounds", "2", "--clients", "20", "--per-round", "3", "--workers", "0", "--model", "cnn-small-bn")


def measured(run: Path, *options: str) -> dict[str, Any]:
    outcome = flatfed("evaluate", run, "--json", *options)
    assert (outcome.code, outcome.err) == (0, "")
    found: dict[str, Any] = outcome.json
    return found


def lines(outcome: Outcome) -> dict[str, str]:
    """Return what is printed by what stands before it."""
    assert outcome.code == 0, outcome.err
    return {line[:24].rstrip(): line[24:] for line in outcome.out.splitlines()}


# --- JSON -------------------------------------------------------------------------------------------------


def test_the_tests_are_those_of_the_last_row(run: Path) -> None:
    row = read_history(run)[-1]
    assert measured(run)["tests"] == {name: row[name] for name in FIGURES}


def test_every_client_is_there_with_its_own_examples(run: Path) -> None:
    clients = measured(run)["clients"]
    assert clients == ff.load_run(run).client_figures()
    assert [entry["client"] for entry in clients] == [0, 1, 2, 3, 4]
    parts = TaskRecipe.from_dict(read_json(run / "config.json")["task"]).build()
    assert [entry["samples"] for entry in clients] == [len(parts.examples(k)) for k in range(5)]
    for entry in clients:
        assert len(entry["class_accuracy"]) == 10
        assert 0 <= entry["accuracy"] <= 1 and entry["loss"] > 0


def test_clients_with_parts_of_their_own_are_measured_with_them() -> None:
    for name, parts in (("own", ("--local-parts", "bn")), ("shared", ())):
        assert flatfed("run", "digits", "fedavg", *NORMED, *parts, "--out", name).code == 0
    own, shared = measured(Path("own")), measured(Path("shared"))
    assert own["clients"] == ff.load_run("own").client_figures()
    asked = {k for row in read_history(Path("own")) for k in row["clients"]}
    assert 0 < len(asked) < 20
    assert len(own["clients"]) == len(shared["clients"])
    assert all(a["loss"] != b["loss"] for a, b in zip(own["clients"], shared["clients"], strict=True))


# --- text -------------------------------------------------------------------------------------------------


def test_the_text_says_the_same(run: Path) -> None:
    told, found = lines(flatfed("evaluate", run)), measured(run)
    assert told["test_loss"] == f"{found['tests']['test_loss']:.4f}"
    assert told["test_accuracy"] == f"{found['tests']['test_accuracy']:.4f}"
    assert told["test_class_accuracy"].split() == [f"{x:.3f}" for x in found["tests"]["test_class_accuracy"]]
    for name in ("accuracy", "loss"):
        values = [entry[name] for entry in found["clients"]]
        low, middle, high = min(values), statistics.median(values), max(values)
        expected = f"mean {statistics.mean(values):.4f}, lowest {low:.4f}, median {middle:.4f}, highest {high:.4f}"
        assert told[f"{name} of 5 clients"] == expected


def test_a_terminal_shows_the_same(run: Path) -> None:
    outcome = on_terminal("evaluate", run, columns=200)
    assert outcome.code == 0
    assert outcome.out.replace("\r\n", "\n") == flatfed("evaluate", run).out


# --- what it leaves alone, and what it refuses ------------------------------------------------------------


def test_nothing_is_written(run: Path, tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    assert flatfed("evaluate", run).code == 0
    assert flatfed("evaluate", run, "--json", "--data-dir", "elsewhere").code == 0  # the digits need no files
    assert fingerprint(tmp_path) == before
    assert not Path("elsewhere").exists()


def test_a_run_that_is_not_there() -> None:
    refused(flatfed("evaluate", "runs/nothing"), "runs/nothing is not a run directory", "does not exist")
    refused(flatfed("evaluate", "runs/nothing", "--json"), "runs/nothing is not a run directory")


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch], ids=["an empty folder", "a file"])
def test_what_is_not_a_run(make: Any) -> None:
    make(Path("thing"))
    refused(flatfed("evaluate", "thing"), "thing is not a run directory")


def test_a_comparison_is_not_a_run(comparison: Path) -> None:
    refused(flatfed("evaluate", comparison), "is not a run directory")
    assert flatfed("evaluate", comparison / "fedavg" / "seed-1").code == 0


def test_the_run_must_be_named() -> None:
    refused(flatfed("evaluate"), "Missing argument 'RUN'")


def test_a_run_without_checkpoints(run: Path) -> None:
    for file in (run / "checkpoints").rglob("*"):
        if file.is_file():
            file.unlink()
    outcome = flatfed("evaluate", run)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err
    assert outcome.err.splitlines()[-1].startswith("Error: ")


def test_data_that_give_another_partition_are_refused(run: Path) -> None:
    text = (run / "config.json").read_text()
    found = read_json(run / "config.json")["task"]["partition_sha256"]
    (run / "config.json").write_text(text.replace(found, "0" * 64))
    refused(flatfed("evaluate", run), str(run), "another partition")


# --- numbers that are not finite --------------------------------------------------------------------------


def test_what_is_not_finite_is_null_in_json_and_said_in_words(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ff.Run.client_figures

    def broken(self: ff.Run) -> list[dict[str, Any]]:
        first, second, *others = real(self)
        return [first | {"loss": float("nan")}, second | {"loss": float("inf")}, *others]

    monkeypatch.setattr(ff.Run, "client_figures", broken)
    clients = measured(run)["clients"]
    assert [entry["loss"] is None for entry in clients] == [True, True, False, False, False]
    shown = lines(flatfed("evaluate", run))
    assert "loss of 3 clients" in shown
    assert "not a finite number for 2 of the clients" in shown[""]
    losses = [entry["loss"] for entry in clients[2:]]
    assert f"median {statistics.median(losses):.4f}" in shown["loss of 3 clients"]
