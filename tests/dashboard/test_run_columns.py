"""Curves: read once, followed, thinned, with what a table shows of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flatfed.dashboard import run_columns
from flatfed.dashboard.entries import read_config
from flatfed.dashboard.run_columns import MOST_POINTS, RunColumns
from flatfed.runs.history import History
from reports.disk import BACKPROPS, BYTES, SECONDS, row, write_run


def columns_of(run: Path) -> RunColumns:
    return RunColumns(run, run.parent, read_config(run, run.parent))


def numbers(piece: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["value"] for one in piece["numbers"]}


def test_every_number_over_every_axis(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(0.2, None, 0.5))
    position, piece = columns_of(run).changes(None)
    assert position[1] == 3 and piece is not None and piece["whole"]
    assert piece["x"] == {
        "round": [1, 2, 3],
        "bytes": [3.0 * BYTES * n for n in (1, 2, 3)],
        "backprops": [float(BACKPROPS * n) for n in (1, 2, 3)],
        "seconds": [SECONDS * n for n in (1, 2, 3)],
    }
    assert piece["series"]["test_accuracy"] == {"at": [0, 2], "mean": [20.0, 50.0]}
    assert piece["series"]["train_loss"]["at"] == [0, 1, 2]
    assert [one["name"] for one in piece["metrics"]][:2] == ["test_accuracy", "train_loss"]
    assert piece["metrics"][0]["label"] == "test accuracy (%)"
    shown = numbers(piece)
    assert (shown["round"], shown["accuracy (%), now"], shown["best"], shown["bytes"]) == (3, 50, 50, 9 * BYTES)
    # Over the last two rounds, of which one was evaluated.
    assert shown["last-n mean"] == 50


def test_pieces_together_are_the_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(), rounds=6)
    columns, history = columns_of(run), History(run / "history.jsonl")
    position, _ = columns.changes(None)
    grown: list[float] = []
    rounds: list[float] = []
    for round in range(6):
        history.append(row(round, round / 10))
        position, piece = columns.changes(position)
        assert piece is not None and piece["whole"] == (round == 0)
        rounds += piece["x"]["round"]
        grown += piece["series"]["test_accuracy"]["mean"]
        assert columns.changes(position) == (position, None)
    history.close()
    _, whole = columns.changes(None)
    assert whole is not None
    assert (whole["x"]["round"], whole["series"]["test_accuracy"]["mean"]) == (rounds, grown)


def test_a_history_that_was_cut_back_comes_as_a_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(0.1, 0.2, 0.3))
    columns = columns_of(run)
    position, _ = columns.changes(None)
    history = History(run / "history.jsonl")
    history.begin([row(0, 0.1)])
    history.close()
    later, piece = columns.changes(position)
    assert piece is not None and piece["whole"] and piece["x"]["round"] == [1]
    assert later[0] > position[0]


def test_long_curves_are_thinned_each_by_itself(tmp_path: Path) -> None:
    count = 2 * MOST_POINTS
    accuracies = tuple(0.5 if round % 50 == 0 else None for round in range(count))
    _, piece = columns_of(write_run(tmp_path / "run", accuracies=accuracies)).changes(None)
    assert piece is not None
    assert len(piece["series"]["train_loss"]["at"]) == MOST_POINTS
    evaluated = [piece["x"]["round"][place] for place in piece["series"]["test_accuracy"]["at"]]
    assert evaluated == list(range(1, count, 50))
    assert piece["x"]["round"][-1] == count


def test_rejected_updates_are_counted_by_reason(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(0.1,))
    history = History(run / "history.jsonl")
    rejected = [{"client": 4, "reason": "not finite"}, {"client": 5, "reason": "\u202etoo long"}]
    history.begin([row(0, 0.1), row(1, None) | {"rejected": rejected}, row(2, None) | {"rejected": rejected[:1]}])
    history.close()
    _, piece = columns_of(run).changes(None)
    assert piece is not None
    counts = {one["reason"]: one["count"] for one in piece["rejected"]["reasons"]}
    assert counts == {"not finite": 2, r"\u202etoo long": 1}
    assert piece["rejected"]["last"][0] == {"round": 3, "client": "4", "reason": "not finite"}
    assert numbers(piece)["rejected updates"] == 3


def test_what_was_not_measured_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(0.1,))
    history = History(run / "history.jsonl")
    history.begin([row(0, 0.5) | {"test_accuracy": None}, row(1, 0.25) | {"watch": {"c": None}}])
    history.close()
    _, piece = columns_of(run).changes(None)
    assert piece is not None
    assert piece["series"]["test_accuracy"] == {"at": [1], "mean": [25.0]}
    assert "c" not in piece["series"]


@pytest.mark.parametrize("value", [1e308, -1e308, 10**400, 2**70])
def test_numbers_without_bounds_can_be_sent(value: float, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=())
    history = History(run / "history.jsonl")
    for round in range(3):
        history.append({**row(round, 0.5), "test_accuracy": value, "seconds": value, "bytes_up": value})
    history.append({**row(3, 0.5), "round": 10**30})
    history.close()
    _, piece = columns_of(run).changes(None)
    assert piece is not None
    json.dumps(piece, allow_nan=False)
    assert piece["x"]["round"] == [1, 2, 3] and "line 4" in piece["damage"]


def test_a_run_in_the_place_of_another_is_never_taken_for_the_rest_of_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", accuracies=(0.1, 0.2))
    known, _ = columns_of(run).changes(None)
    (run / "history.jsonl").unlink()
    history = History(run / "history.jsonl")
    for round in range(3):
        history.append(row(round, 0.9))
    history.close()
    _, piece = columns_of(run).changes(known)
    assert piece is not None and piece["whole"]
    assert piece["series"]["test_accuracy"]["mean"] == [90.0, 90.0, 90.0]


def test_a_history_without_an_end_is_shown_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_columns, "MOST_VALUES", 20)
    columns = columns_of(write_run(tmp_path / "run", accuracies=(0.1,) * 50))
    position, piece = columns.changes(None)
    assert piece is not None and piece["damage"] == run_columns.TOO_LONG
    assert position[1] < 10
    assert columns.changes(position) == (position, None)


def test_reasons_without_end_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_columns, "MOST_REASONS", 3)
    run = write_run(tmp_path / "run", accuracies=())
    history = History(run / "history.jsonl")
    history.append({**row(0, 0.5), "rejected": [{"client": n, "reason": f"reason {n}"} for n in range(10)]})
    history.close()
    _, piece = columns_of(run).changes(None)
    assert piece is not None
    counts = {one["reason"]: one["count"] for one in piece["rejected"]["reasons"]}
    assert counts == {"reason 0": 1, "reason 1": 1, "reason 2": 1, run_columns.OTHER_REASON: 7}


def test_rounds_that_were_evaluated_more_often_are_known(tmp_path: Path) -> None:
    rounds, every = 40, 5
    accuracies = tuple(0.5 if round % every == 0 or round > 30 else None for round in range(1, rounds + 1))
    run = write_run(tmp_path / "run", accuracies=accuracies, evaluate_every=every)
    _, piece = columns_of(run).changes(None)
    assert piece is not None
    curve = piece["series"]["test_accuracy"]
    assert curve["every"] == every and len(curve["at"]) == 16
    # What every round has lies evenly.
    assert "every" not in piece["series"]["train_loss"]


def test_even_rounds_stay_even_where_a_long_curve_is_thinned(tmp_path: Path) -> None:
    rounds, every = 6 * MOST_POINTS, 2
    accuracies = tuple(0.5 if round % every == 0 or round > rounds - 100 else None for round in range(1, rounds + 1))
    run = write_run(tmp_path / "run", accuracies=accuracies, evaluate_every=every)
    _, piece = columns_of(run).changes(None)
    assert piece is not None
    drawn = [piece["x"]["round"][place] for place in piece["series"]["test_accuracy"]["at"]]
    assert sum(round % every == 0 for round in drawn) == MOST_POINTS
    assert [round for round in drawn if round % every] == list(range(rounds - 99, rounds, every))
