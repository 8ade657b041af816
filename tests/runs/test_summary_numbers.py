"""The figures of a run: final, mean of the last n, best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flatfed.runs.directory import RunDirectory
from flatfed.runs.metrics import summarise
from runs.bench import small_run


def row(round: int, accuracy: float | None = None, loss: float | None = None, **more: Any) -> dict[str, Any]:
    cost = {"bytes_down": 100, "bytes_up": 50, "backprops": 7, "seconds": 0.5}
    tested = {"test_accuracy": accuracy, "test_loss": loss} if accuracy is not None else {}
    return {"round": round, **cost, **tested, **more}


ROWS = [
    row(0),
    row(1, 0.9, 0.3),
    row(2),
    row(3, 0.5, 0.8),
    row(4, 0.6, 0.7),
    row(5, 0.7, 0.6),
]


def test_final_is_of_the_last_evaluated_round() -> None:
    actual = summarise(ROWS, rounds=6, last=2)
    assert (actual["accuracy_final"], actual["test_loss_final"]) == (0.7, 0.6)
    assert summarise(ROWS[:3], rounds=6, last=2)["accuracy_final"] == 0.9


def test_best_is_over_all_evaluated_rounds() -> None:
    assert summarise(ROWS, rounds=6, last=2)["accuracy_best"] == 0.9


@pytest.mark.parametrize(
    ("last", "mean", "count"),
    [(0, 0.7, 1), (1, 0.7, 1), (2, 0.65, 2), (3, 0.6, 3), (4, 0.6, 3), (5, 0.675, 4), (100, 0.675, 4)],
)
def test_the_mean_is_over_the_evaluated_rounds_among_the_last(last: int, mean: float, count: int) -> None:
    actual = summarise(ROWS, rounds=6, last=last)
    assert actual["accuracy_last_mean"] == pytest.approx(mean, rel=1e-12)
    assert actual["last_count"] == count


def test_costs_are_totals() -> None:
    rejected = [{"client": 3, "reason": "w is not finite"}] * 2
    actual = summarise([*ROWS, row(6, rejected=rejected)], rounds=7, last=1)
    assert (actual["rounds"], actual["bytes_down"], actual["bytes_up"]) == (7, 700, 350)
    assert (actual["backprops"], actual["seconds"], actual["rejected"]) == (49, 3.5, 2)


@pytest.mark.parametrize("rows", [[], [row(0), row(1)]])
def test_a_run_that_was_never_evaluated_has_no_accuracy(rows: list[dict[str, Any]]) -> None:
    actual = summarise(rows, rounds=2, last=2)
    for name in ("accuracy_final", "accuracy_last_mean", "accuracy_best", "test_loss_final"):
        assert actual[name] is None
    assert actual["last_count"] == 0


def test_a_loss_that_overflowed_is_passed_over() -> None:
    rows = [row(0, 0.4, 2.0), {**row(1, 0.3), "test_loss": None}]
    assert summarise(rows, rounds=2, last=1)["test_loss_final"] == 2.0


def test_a_run_and_its_directory_tell_the_same(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", evaluate_every=2, last=2)
    assert [r["round"] for r in run.history if "test_accuracy" in r] == [1, 3, 4]
    assert RunDirectory.open(tmp_path / "run").summary() == run.summary
    assert run.summary["status"] == "finished"
    assert run.summary["last_count"] == 2
