"""When the model is evaluated, and the figures of a run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.bench import task, train
from flatfed.core.configuration.settings import Settings
from flatfed.runs.metrics import summarise


def evaluated(rounds: int, **cadence: int) -> list[int]:
    run = train(task(), cohorts=[[0]] * rounds, **cadence)
    assert all(("test_loss" in row) == ("test_accuracy" in row) for row in run.history)
    return [row["round"] for row in run.history if "test_loss" in row]


def test_evaluation_is_every_so_often_in_the_last_rounds_and_at_the_end():
    assert evaluated(8, evaluate_every=3, evaluate_last=2) == [2, 5, 6, 7]
    assert evaluated(8, evaluate_every=3, evaluate_last=0) == [2, 5, 7]
    assert evaluated(8, evaluate_every=100, evaluate_last=1) == [7]
    assert evaluated(4, evaluate_every=1, evaluate_last=0) == [0, 1, 2, 3]
    assert evaluated(3, evaluate_every=10) == [0, 1, 2]


@settings(deadline=None)
@given(rounds=st.integers(1, 40), every=st.integers(1, 50), last=st.integers(0, 50))
def test_the_final_round_is_always_evaluated(rounds, every, last):
    chosen = Settings(rounds=rounds, lr=0.1, evaluate_every=every, evaluate_last=last)
    asked = {t for t in range(rounds) if chosen.evaluates(t)}
    assert asked == {rounds - 1} | set(range(max(0, rounds - last), rounds)) | set(range(every - 1, rounds, every))


def rows(*accuracies: float | None) -> list[dict]:
    cost = {"bytes_down": 10, "bytes_up": 5, "backprops": 2, "seconds": 0.5}
    figures = [{} if a is None else {"test_accuracy": a, "test_loss": 1 - a} for a in accuracies]
    return [{"round": t, **cost, **figure} for t, figure in enumerate(figures)]


def test_final_last_mean_and_best_are_each_their_own_number():
    summary = summarise(rows(0.2, None, 0.9, None, 0.5, 0.6, 0.4), rounds=7, last=3)
    assert summary["accuracy_final"] == 0.4
    assert summary["accuracy_last_mean"] == pytest.approx((0.5 + 0.6 + 0.4) / 3)
    assert summary["last_count"] == 3
    assert summary["accuracy_best"] == 0.9
    assert summary["test_loss_final"] == pytest.approx(0.6)
    assert (summary["bytes_down"], summary["bytes_up"], summary["backprops"], summary["seconds"]) == (
        70,
        35,
        14,
        3.5,
    )


@pytest.mark.parametrize(
    ("rounds", "last", "count"), [(20, None, 2), (5, None, 1), (20, 7, 7), (20, 0, 1), (20, 50, 20)]
)
def test_the_mean_is_over_the_last_rounds_asked_for_or_a_tenth(rounds, last, count):
    accuracies = [t / rounds for t in range(rounds)]
    summary = summarise(rows(*accuracies), rounds, last)
    assert summary["last_count"] == count
    assert summary["accuracy_last_mean"] == pytest.approx(sum(accuracies[-count:]) / count)


def test_a_run_that_ended_early_says_so_by_its_count():
    summary = summarise(rows(0.2, None, 0.9), rounds=7, last=3)
    assert (summary["accuracy_final"], summary["accuracy_last_mean"], summary["last_count"]) == (0.9, None, 0)


def test_the_summary_of_a_run_is_that_of_its_history():
    run = train(task(), cohorts=[[0, 1], [2], [3], [0], [1, 2, 3]], evaluate_every=2, evaluate_last=2, lr=1.0)
    accuracy = {row["round"]: row["test_accuracy"] for row in run.history if "test_accuracy" in row}
    assert sorted(accuracy) == [1, 3, 4]
    summary = run.summary
    assert summary["accuracy_final"] == accuracy[4]
    assert summary["accuracy_last_mean"] == pytest.approx((accuracy[3] + accuracy[4]) / 2)
    assert summary["accuracy_best"] == max(accuracy.values())
    assert (summary["status"], summary["reason"], summary["rounds"]) == ("finished", "", 5)
