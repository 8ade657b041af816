"""A run that is interrupted on one engine and goes on on another ends with the bits of an undisturbed one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import alive, assert_same, bits, digits, eventually, worker_pids
from engines.table import ENGINES, ON_CLUSTERS, Row, marks_of, on_engines
from flatfed.core.configuration.settings import Settings
from flatfed.runs.directory import RunDirectory

CLIENTS, ROUNDS = 12, 8
SETTINGS: dict[str, Any] = {"rounds": ROUNDS, "sampling": 4, "lr": 0.05, "evaluate_every": 1, "vectorised": False}
WAYS = [("in-process", "futures", "processes"), ("processes", "ray", "in-process")]


def way(*names: str) -> Any:
    rows = [ENGINES[name] for name in names]
    marks = [mark for row in rows for mark in marks_of(row)]
    if any(row.starts_slowly for row in rows):
        marks.append(ON_CLUSTERS)
    return pytest.param(rows, id=" to ".join(names), marks=marks)


@pytest.mark.usefixtures("signals_heard")
@pytest.mark.parametrize("engines", [way(*names) for names in WAYS])
def test_a_run_goes_on_on_another_engine_and_on_a_third(engines: list[Row], tmp_path: Path) -> None:
    """The interrupt key is pressed twice, each time when the second row on an engine is told.

    A round that is played by then, and not yet told, is kept.
    """
    expected = ff.train(digits(), "scaffold+sam+swa", workers=0, **SETTINGS)
    told: list[list[int]] = [[]]

    def press(row: dict[str, Any]) -> None:
        told[-1].append(row["round"])
        if len(told) < 3 and len(told[-1]) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    def kept() -> int:
        told.append([])
        return len(RunDirectory.open(tmp_path / "run").rows)

    first, second, third = engines
    where = {"out": tmp_path / "run", "on_round": press}
    begun_run = ff.train(digits(), "scaffold+sam+swa", engine=first.config(2), **where, **SETTINGS)
    assert begun_run.status == "interrupted"
    begun = kept()
    assert 2 <= begun < ROUNDS - 2
    assert ff.resume(tmp_path / "run", engine=second.config(2), on_round=press).status == "interrupted"
    gone_on = kept()
    assert begun + 2 <= gone_on < ROUNDS
    run = ff.resume(tmp_path / "run", engine=third.config(2), on_round=press)
    assert told == [[0, 1], [begun, begun + 1], list(range(gone_on, ROUNDS))]
    assert_same(bits(run, CLIENTS), bits(expected, CLIENTS))


def test_an_engine_that_is_not_known_any_more_can_be_replaced(tmp_path: Path) -> None:
    ff.train(digits(), "fedavg", engine=ENGINES["futures"].config(1), out=tmp_path / "run", **SETTINGS)
    with pytest.raises(ff.ConfigError, match="begun on the engine 'futures', which is not known here"):
        ff.resume(tmp_path / "run", rounds=ROUNDS + 1)
    assert ff.resume(tmp_path / "run", rounds=ROUNDS + 1, workers=0).status == "finished"


@on_engines(needs="replaces_workers", without="starts_slowly")
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
