"""Where an average is evaluated, so is the global model, in the same rounds."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff
from core.bench import normed, pairs, task, train
from flatfed.core.round.federation import TIMES
from flatfed.runs.metrics import summarise

FIGURES = ("loss", "accuracy", "class_accuracy")
ROUNDS, EVERYONE = 6, [0, 1, 2, 3]
COHORTS = [EVERYONE] * ROUNDS
HOW = {"cohorts": COHORTS, "evaluate_every": 1, "lr": 0.3, "local_epochs": 2}
SWA = ff.SWA(start=0.5, cycle=1)
AVERAGES = {
    "swa": SWA,
    "swa, cycles": ff.SWA(start=0.5, cycle=2, lr_low=0.3),
    "swa, paper": ff.SWA(start=0.5, cycle=2, lr_low=0.3, mode="paper"),
    "wima": ff.WIMA(window=3),
}
FIRST = {"swa": 4, "swa, cycles": 5, "swa, paper": 3, "wima": 1}
"""The first round in which the average is not the global model: the first capture is that model."""


def problem(**changes: Any) -> ff.Task:
    return task(normed(), tests={"unseen": pairs((11,), 9)[0]}, **changes)


def of_global(row: dict[str, Any]) -> dict[str, Any]:
    """The global model's figures under the names that they have where it is the one that is evaluated."""
    actual = {name.removeprefix("global_"): value for name, value in row.items() if name.startswith("global_")}
    return {name if name.startswith("unseen_") else f"test_{name}": value for name, value in actual.items()}


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name.startswith(("test_", "unseen_"))}


def timeless(run: ff.Run) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in run.history]


@pytest.mark.parametrize("policy", ["running", "batch-stats", "recalibrate"])
@pytest.mark.parametrize("name", AVERAGES)
def test_they_are_those_of_the_run_without_the_average(name: str, policy: str) -> None:
    """The rate stays as it is, so that the trajectory is the same; in the rounds where models differ, so do figures."""
    plain = train(problem(), **HOW, eval_stats=policy)
    run = train(problem(), **HOW, eval_stats=policy, average=AVERAGES[name])
    assert torch.equal(run.vector, plain.vector) and not torch.equal(run.eval_vector, run.vector)
    for row, other in zip(run.history, plain.history, strict=True):
        if row["round"] < FIRST[name]:
            assert not of_global(row)
            assert shown(row) == shown(other)
        else:
            assert of_global(row) == shown(other)
            assert row["test_loss"] != row["global_loss"] and row["unseen_loss"] != row["global_unseen_loss"]
    assert set(of_global(run.history[-1])) == {f"{test}_{name}" for test in ("test", "unseen") for name in FIGURES}


def test_without_an_average_or_where_it_is_the_model_itself_there_are_none() -> None:
    for average in (None, ff.WIMA(window=1), ff.SWA(start=1.0)):
        run = train(problem(), **HOW, average=average)
        assert not any(map(of_global, run.history))
        assert not any(name.startswith("global_") for name in run.summary)


def test_only_evaluation_rounds_have_them() -> None:
    run = train(problem(), **{**HOW, "evaluate_every": 2, "evaluate_last": 0}, average=ff.WIMA(window=3))
    assert [row["round"] for row in run.history if "global_loss" in row] == [1, 3, 5]


def test_a_loss_that_is_no_number_is_null_in_the_row() -> None:
    odd = task(tests={"unseen": (torch.full((2, 4), torch.nan, dtype=torch.float64), torch.arange(2))})
    run = train(odd, **HOW, average=ff.WIMA(window=3))
    assert run.status == "finished"
    assert [row["global_unseen_loss"] for row in run.history[1:]] == [None] * (ROUNDS - 1)


@pytest.mark.parametrize("policy", ["running", "recalibrate"])
def test_workers_change_no_bit(policy: str) -> None:
    given = HOW | {"eval_stats": policy, "average": ff.WIMA(window=3)}
    plain, *others = (timeless(train(problem(test_batch=3), **given, workers=workers)) for workers in (0, 1, 2))
    assert all(other == plain for other in others)
    assert "global_unseen_class_accuracy" in plain[-1]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_run_that_is_stopped_and_resumed_has_the_same_rows(stop: int, workers: int, tmp_path: Path) -> None:
    given = HOW | {"average": ff.SWA(start=0.3, cycle=2, lr_low=0.01)}
    whole = train(problem(), **given)

    def press(row: dict[str, Any]) -> None:
        if row["round"] == stop:
            os.kill(os.getpid(), signal.SIGINT)

    train(problem(), **given, workers=workers, out=tmp_path / "run", on_round=press)
    again = ff.resume(tmp_path / "run", workers=workers)
    assert timeless(again) == timeless(whole)
    assert again.summary | dict.fromkeys(TIMES) == whole.summary | dict.fromkeys(TIMES)


@pytest.mark.parametrize("policy", ["running", "recalibrate"])
def test_a_run_and_a_loaded_run_measure_them_again(policy: str, tmp_path: Path) -> None:
    run = train(problem(), **HOW, eval_stats=policy, average=SWA, out=tmp_path / "run")
    row = run.history[-1]
    expected = {name: value for name, value in row.items() if name in shown(row) or name.startswith("global_")}
    assert ff.load_run(tmp_path / "run").metrics() == run.metrics() == expected


def test_the_figures_are_of_the_model_in_run_vector() -> None:
    run = train(task(), **HOW, average=ff.WIMA(window=3))
    x, y = pairs((9,), 5)[0]
    for vector, name in ((run.vector, "global_loss"), (run.eval_vector, "test_loss")):
        model = run.model()
        torch.nn.utils.vector_to_parameters(vector, model.parameters())
        loss = torch.nn.functional.cross_entropy(model(x), y).detach()
        assert run.history[-1][name] == pytest.approx(float(loss), rel=1e-12)


def test_an_evaluation_that_fails_says_so_whatever_the_workers(tmp_path: Path) -> None:
    """The error is the evaluation's, and the run's last checkpoint stands."""
    for workers in (0, 2):
        out = tmp_path / f"run{workers}"
        with pytest.raises(ff.EngineError, match=r"evaluation of test.*no nine, please"):
            train(task(loss=no_nine), **HOW, average=SWA, workers=workers, out=out)
        assert ff.load_run(out, task=task()).status == "failed"


def no_nine(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy that cannot stand the test set."""
    if len(targets) == 9:
        raise ZeroDivisionError("no nine, please")
    return torch.nn.functional.cross_entropy(outputs, targets)


# --- in the summary -------------------------------------------------------------------------------------------


def test_the_summary_has_the_global_models_accuracies() -> None:
    cost = {"bytes_down": 1, "bytes_up": 1, "backprops": 1, "seconds": 1.0}
    figures = [{"test_accuracy": 0.9}, {}, {"test_accuracy": 0.5, "global_accuracy": 0.4}, {"test_accuracy": 0.6}]
    figures[3]["global_accuracy"] = 0.2
    rows = [{"round": t, **cost, **figure} for t, figure in enumerate(figures)]
    reported = summarise(rows, 4, 2)
    names = [f"global_accuracy_{kind}" for kind in ("final", "last_mean", "best")]
    assert [reported[name] for name in names] == [0.2, pytest.approx(0.3), 0.9]
    assert [reported[name.removeprefix("global_")] for name in names] == [0.6, pytest.approx(0.55), 0.9]
    assert [summarise(rows, 4, 4)[name] for name in names] == [0.2, pytest.approx(0.5), 0.9]
    assert not {*names} & summarise(rows[:2], 4, 2).keys()


def test_the_summary_is_that_of_the_run_without_the_average() -> None:
    plain = train(problem(), **HOW, evaluate_last=3)
    run = train(problem(), **HOW, evaluate_last=3, average=SWA)
    for kind in ("final", "last_mean", "best"):
        assert run.summary[f"global_accuracy_{kind}"] == plain.summary[f"accuracy_{kind}"]
