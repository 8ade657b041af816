"""A run that is interrupted on one engine and goes on on another ends with the bits of an undisturbed one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import alive, assert_same, bits, digits, eventually, worker_pids
from engines.table import ENGINES, Row, marks_of, on_engines
from flatfed.core.configuration.settings import Settings
from flatfed.runs.directory import RunDirectory

CLIENTS, ROUNDS = 12, 4
SETTINGS: dict[str, Any] = {"rounds": ROUNDS, "sampling": 4, "lr": 0.05, "evaluate_every": 1, "vectorised": False}
WAYS = [("in-process", "futures"), ("futures", "processes"), ("processes", "ray"), ("ray", "in-process")]


def way(first: str, second: str) -> Any:
    marks = marks_of(ENGINES[first]) + marks_of(ENGINES[second])
    return pytest.param(ENGINES[first], ENGINES[second], id=f"{first} to {second}", marks=marks)


@pytest.mark.usefixtures("signals_heard")
@pytest.mark.parametrize(("first", "second"), [way(*names) for names in WAYS])
def test_a_run_begun_on_one_engine_goes_on_on_another(first: Row, second: Row, tmp_path: Path) -> None:
    """The interrupt key is pressed when the second row is told."""
    expected = ff.train(digits(), "scaffold+sam+swa", workers=0, **SETTINGS)

    def press(row: dict[str, Any]) -> None:
        if row["round"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(ff.RunInterrupted):
        ff.train(digits(), "scaffold+sam+swa", engine=first.config(2), out=tmp_path / "run", on_round=press, **SETTINGS)
    kept = len(RunDirectory.open(tmp_path / "run").rows)
    assert 2 <= kept < ROUNDS
    played: list[int] = []
    run = ff.resume(tmp_path / "run", engine=second.config(2), on_round=lambda row: played.append(row["round"]))
    assert played == list(range(kept, ROUNDS))
    assert_same(bits(run, CLIENTS), bits(expected, CLIENTS))


def test_an_engine_that_is_not_known_any_more_can_be_replaced(tmp_path: Path) -> None:
    ff.train(digits(), "fedavg", engine=ENGINES["futures"].config(1), out=tmp_path / "run", **SETTINGS)
    with pytest.raises(ff.ConfigError, match="begun on the engine 'futures', which is not known here"):
        ff.resume(tmp_path / "run", rounds=ROUNDS + 1)
    assert ff.resume(tmp_path / "run", rounds=ROUNDS + 1, workers=0).status == "finished"


@on_engines(needs="replaces_workers")
def test_nothing_is_left_of_the_workers_after_the_end(row: Row) -> None:
    settings = Settings(rounds=1, lr=0.1, vectorised=False)
    engine = row.config(2).start(digits(), ff.make("fedavg"), settings)
    pids = worker_pids(engine)
    assert len(pids) == 2
    assert all(map(alive, pids))
    engine.close()
    for pid in pids:
        eventually(lambda pid=pid: not alive(pid), f"the end of worker {pid}")
    engine.close()  # once more is no error
