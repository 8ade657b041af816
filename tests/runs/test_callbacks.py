"""Callbacks see rows, evaluations, checkpoints and the end, in a run and when it goes on; they change no bit."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import flatfed as ff


def task() -> ff.Task:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(30, 4, generator=generator), torch.arange(30) % 3
    model = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    return ff.Task(model, [(x[k::5], y[k::5]) for k in range(5)], (x, y))


class Seen:
    """Notes every call."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.evaluated: list[int] = []
        self.saved: list[tuple[int, Path]] = []
        self.ends: list[tuple[str, int]] = []

    def callbacks(self, **others: Any) -> ff.Callbacks:
        return ff.Callbacks(
            **{
                "on_round": lambda row: self.rounds.append(row["round"]),
                "on_evaluation": lambda row: self.evaluated.append(row["round"]),
                "on_checkpoint": lambda round, path: self.saved.append((round, path)),
                "on_end": lambda run: self.ends.append((run.status, len(run.history))),
                **others,
            }
        )


SETTINGS: dict[str, Any] = {
    "rounds": 4,
    "lr": 0.1,
    "sampling": 2,
    "workers": 0,
    "evaluate_every": 2,
    "evaluate_last": 1,
}


def test_every_moment_of_a_run_is_seen(tmp_path: Path) -> None:
    seen, out = Seen(), tmp_path / "r"
    run = ff.train(task(), "fedavg", out=out, checkpoint_every=2, on_round=seen.callbacks(), **SETTINGS)
    assert seen.rounds == [0, 1, 2, 3]
    assert seen.evaluated == [row["round"] for row in run.history if "test_loss" in row] == [1, 3]
    assert [round for round, _ in seen.saved] == [0, 2, 3, 4]
    assert {path for _, path in seen.saved} == {out}
    assert seen.ends == [("finished", 4)]
    plain = ff.train(task(), "fedavg", **SETTINGS)
    assert torch.equal(run.vector, plain.vector)
    more = Seen()
    ff.resume(out, rounds=6, task=task(), on_round=more.callbacks())
    assert more.rounds == [4, 5]
    assert more.ends == [("finished", 6)]


def test_the_end_of_an_interrupted_run_is_seen(tmp_path: Path) -> None:
    seen = Seen()
    callbacks = seen.callbacks(on_round=lambda row: signal.raise_signal(signal.SIGINT))
    assert ff.train(task(), "fedavg", out=tmp_path / "r", on_round=callbacks, **SETTINGS).status == "interrupted"
    [(status, rows)] = seen.ends
    assert status == "interrupted"
    assert rows < 4


def test_an_error_in_a_callback_ends_a_run_that_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def fail(row: dict[str, Any]) -> None:
        raise ZeroDivisionError("of the user's own")

    callbacks = Seen().callbacks(on_evaluation=fail)
    with pytest.raises(ZeroDivisionError, match="own"):
        ff.train(task(), "fedavg", out=tmp_path / "r", checkpoint_every=1, on_round=callbacks, **SETTINGS)
    resumed = ff.resume(tmp_path / "r", task=task())
    assert torch.equal(resumed.vector, ff.train(task(), "fedavg", **SETTINGS).vector)
