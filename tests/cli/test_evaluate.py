"""`flatfed evaluate`: a run's model on the test sets, by class, and on each client's own examples."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import Outcome, fingerprint, flatfed, on_terminal, read_history, read_json, refused
from flatfed.experiments.running import model_metrics as measuring
from flatfed.experiments.tasks.recipe import TaskRecipe
from flatfed.named_code import USER
from records import rewrite

FIGURES = ("test_loss", "test_accuracy", "test_class_accuracy")
NORMED = ("--rounds", "2", "--clients", "20", "--per-round", "3", "--workers", "0", "--model", "cnn-small-bn")


def measured(run: Path, *options: str) -> dict[str, Any]:
    outcome = flatfed("evaluate", run, "--json", *options)
    assert (outcome.code, outcome.err) == (0, "")
    actual: dict[str, Any] = outcome.json
    return actual


def lines(outcome: Outcome) -> dict[str, str]:
    """Return what is printed by what stands before it."""
    assert outcome.code == 0, outcome.err
    width = max(len(line.partition("  ")[0]) for line in outcome.out.splitlines()) + 2
    return {line[:width].rstrip(): line[width:] for line in outcome.out.splitlines()}


# --- JSON -------------------------------------------------------------------------------------------------


def test_the_tests_are_those_of_the_last_row(run: Path) -> None:
    row = read_history(run)[-1]
    assert measured(run)["tests"] == {name: row[name] for name in FIGURES}


def test_every_client_is_there_with_its_own_examples(run: Path) -> None:
    clients = measured(run)["clients"]
    assert clients == ff.load_run(run).client_metrics()
    assert [entry["client"] for entry in clients] == [0, 1, 2, 3, 4]
    parts = TaskRecipe.from_dict(read_json(run / "config.json")["task"], USER).build()
    assert [entry["samples"] for entry in clients] == [len(parts.examples(k)) for k in range(5)]
    for entry in clients:
        assert len(entry["class_accuracy"]) == 10
        assert 0 <= entry["accuracy"] <= 1 and entry["loss"] > 0


def test_clients_with_parts_of_their_own_are_measured_with_them() -> None:
    for name, parts in (("own", ("--local-layers", "bn")), ("shared", ())):
        assert flatfed("run", "digits", "fedavg", *NORMED, *parts, "--out", name).code == 0
    own, shared = measured(Path("own")), measured(Path("shared"))
    assert own["clients"] == ff.load_run("own").client_metrics()
    asked = {k for row in read_history(Path("own")) for k in row["clients"]}
    assert 0 < len(asked) < 20
    assert len(own["clients"]) == len(shared["clients"])
    assert all(a["loss"] != b["loss"] for a, b in zip(own["clients"], shared["clients"], strict=True))


def test_the_round_that_was_measured_is_named(run: Path) -> None:
    assert list(measured(run)) == ["round", "tests", "clients"]
    assert measured(run)["round"] == 3
    assert lines(flatfed("evaluate", run))["round"] == "3 of 3"


def test_the_round_of_an_older_checkpoint_is_named() -> None:
    options = ("--checkpoint-every", "1", "--rounds", "3", "--model", "logreg")
    assert flatfed("run", "digits", "fedavg", *NORMED, *options, "--out", "saved").code == 0
    Path("saved/checkpoints/round-000003/server.safetensors").write_bytes(b"damaged")
    outcome = flatfed("evaluate", "saved", "--json")
    assert outcome.code == 0
    assert outcome.json["round"] == ff.load_run("saved", say=lambda text: None).round == 2
    assert "checkpoint of round 3 cannot be used" in outcome.err
    assert outcome.err.endswith("; that of round 2 is used instead\n")
    assert lines(flatfed("evaluate", "saved"))["round"] == "2 of 3"


# --- text -------------------------------------------------------------------------------------------------


def test_the_text_says_the_same(run: Path) -> None:
    reported, actual = lines(flatfed("evaluate", run)), measured(run)
    assert reported["test_loss"] == f"{actual['tests']['test_loss']:.4f}"
    assert reported["test_accuracy (%)"] == f"{100 * actual['tests']['test_accuracy']:.2f}"
    shares = [f"{100 * x:.1f}" for x in actual["tests"]["test_class_accuracy"]]
    assert reported["test_class_accuracy (%)"].split() == shares
    for name, label, factor, form in (("accuracy", " (%)", 100, ".2f"), ("loss", "", 1, ".4f")):
        values = [factor * entry[name] for entry in actual["clients"]]
        ends = {"mean": statistics.mean(values), "lowest": min(values)}
        ends |= {"median": statistics.median(values), "highest": max(values)}
        expected = ", ".join(f"{which} {value:{form}}" for which, value in ends.items())
        assert reported[f"{name} of 5 clients{label}"] == expected


def test_the_accuracy_is_written_as_the_table_writes_it(run: Path) -> None:
    reported = lines(flatfed("evaluate", run))["test_accuracy (%)"]
    assert re.search(rf"fedsam +{reported} ", flatfed("show", run).out)


def test_a_list_with_gaps_and_a_figure_that_is_no_share(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actual = {"test_loss": 1.0, "test_error": 0.25, "unseen_class_iou": [0.5, None], "test_miou": 0.5}
    monkeypatch.setattr(ff.Run, "metrics", lambda self, workers: actual)
    reported = lines(flatfed("evaluate", run))
    assert reported["test_error"] == "0.2500"
    assert reported["unseen_class_iou (%)"] == "50.0 –"
    assert reported["test_miou (%)"] == "50.00"


def test_a_terminal_shows_the_same(run: Path) -> None:
    outcome = on_terminal("evaluate", run, columns=200)
    assert outcome.code == 0
    assert outcome.out.replace("\r\n", "\n") == flatfed("evaluate", run).out
    assert re.search(r"5/5 clients", outcome.err)


# --- workers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [(), ("--local-layers", "bn"), ("--eval-stats", "recalibrate")], ids=str)
def test_workers_do_not_matter(parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert flatfed("run", "digits", "fedavg", *NORMED, *parts, "--out", "normed").code == 0
    alone = measured(Path("normed"), "--workers", "0")
    monkeypatch.setattr(measuring, "SMALL", 0)
    monkeypatch.setattr(measuring, "GROUP", 500)
    assert measured(Path("normed"), "--workers", "2") == alone
    assert [entry["client"] for entry in alone["clients"]] == list(range(20))


def test_the_workers_are_those_of_the_run_unless_others_are_asked_for(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    real = ff.Run.metrics
    monkeypatch.setattr(ff.Run, "metrics", lambda self, workers: asked.append(workers) or real(self))
    measured(run)
    measured(run, "--workers", "auto")
    assert asked == [0, "auto"]
    refused(flatfed("evaluate", run, "--workers", "-1"), "--workers", "-1")


def test_progress_is_reported_group_by_group(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "GROUP", 300)
    reported: list[tuple[int, int]] = []
    actual = ff.load_run(run).client_metrics(on_clients=lambda done, total: reported.append((done, total)))
    assert actual == ff.load_run(run).client_metrics()
    assert reported[0] == (0, 5) and reported[-1] == (5, 5) and len(reported) > 2


def test_away_from_a_terminal_a_line_comes_now_and_then(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatfed.cli.output.progress.LINE_SECONDS", 0.0)
    outcome = flatfed("evaluate", run)
    assert outcome.err.splitlines() == ["test sets", "clients (1 of 5)"]


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
    reported = flatfed("evaluate", comparison)
    refused(reported, "is not a run directory", "fedavg/seed-0", "feddyn+sam/seed-2", "fedsam/")
    with pytest.raises(ff.ConfigError, match="name one of the runs in it: fedavg/seed-0"):
        ff.load_run(comparison)
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
    config = read_json(run / "config.json")
    config["task"]["partition_sha256"] = "0" * 64
    rewrite(run / "config.json", config)
    refused(flatfed("evaluate", run), str(run), "another partition")


# --- numbers that are not finite --------------------------------------------------------------------------


def test_what_is_not_finite_is_null_in_json_and_said_in_words(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ff.Run.client_metrics

    def broken(self: ff.Run, *_: Any) -> list[dict[str, Any]]:
        first, second, *others = real(self)
        return [first | {"loss": float("nan")}, second | {"loss": float("inf")}, *others]

    monkeypatch.setattr(ff.Run, "client_metrics", broken)
    clients = measured(run)["clients"]
    assert [entry["loss"] is None for entry in clients] == [True, True, False, False, False]
    shown = lines(flatfed("evaluate", run))
    assert "loss of 3 clients" in shown
    assert "not a finite number for 2 of the clients" in shown[""]
    losses = [entry["loss"] for entry in clients[2:]]
    assert f"median {statistics.median(losses):.4f}" in shown["loss of 3 clients"]
