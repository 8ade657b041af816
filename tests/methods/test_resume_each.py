"""Every method, interrupted in the middle and resumed from its run directory, comes to the same bits.

Every run of the tests takes each method with one average, by turns, and each of its kinds of state without
one, and every third with schedules; in `make battery`, every method with every average and with schedules.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import assert_same
from flatfed.core.method.algorithm import Algorithm
from methods.designs import marked, turned
from methods.wire import (
    AVERAGES,
    COHORTS,
    METHODS,
    SETTINGS,
    RemembersOnItself,
    average,
    drifting,
    everything,
    make_task,
    rich,
    with_other_states,
)

pytestmark = pytest.mark.usefixtures("signals_heard")

ROUNDS, DONE = 4, 2
TASK = "BatchNorm local"


def trained(method: Algorithm, averaged: str | None, **changes: Any) -> ff.Run:
    settings = {"rounds": ROUNDS, "sampling": ff.Replay(COHORTS), "workers": 0, **SETTINGS}
    return ff.train(make_task(TASK), method, average=average(averaged), **settings, **changes)


def interrupt(row: dict[str, Any]) -> None:
    if row["round"] == DONE - 1:
        signal.raise_signal(signal.SIGINT)


def resumed(method: Algorithm, averaged: str | None, path: Path) -> dict[str, Any]:
    """Play two rounds, stop as by Ctrl-C, and go on with a task, a method and settings that are read anew."""
    stopped = trained(method, averaged, out=path, on_round=interrupt)
    assert (stopped.status, len(stopped.history)) == ("interrupted", DONE)
    played: list[int] = []
    run = ff.resume(path, task=make_task(TASK), on_round=lambda row: played.append(row["round"]))
    assert played == list(range(DONE, ROUNDS))
    return everything(run)


@marked("method, averaged", [(id, name) for id in METHODS for name in (None, *AVERAGES)], turned(METHODS, AVERAGES))
def test_every_method_resumes_to_the_same_bits(method: str, averaged: str | None, tmp_path: Path) -> None:
    expected = everything(trained(rich(method), averaged))
    assert (expected["eval_vector"] != expected["vector"]) == bool(averaged)
    assert_same(resumed(rich(method), averaged, tmp_path / "run"), expected)


@pytest.mark.parametrize("method", METHODS)
def test_variants_that_keep_other_things_resume_to_the_same_bits(method: str, tmp_path: Path) -> None:
    for number, made in enumerate(with_other_states(method)):
        expected = everything(trained(made, None))
        assert_same(resumed(made, None, tmp_path / str(number)), expected)


@marked("method", METHODS, METHODS[::3])
def test_schedules_resume_to_the_same_bits(method: str, tmp_path: Path) -> None:
    expected = everything(trained(drifting(method), None))
    assert_same(resumed(drifting(method), None, tmp_path / "run"), expected)


def test_a_method_that_remembers_on_itself_is_exposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Algorithm.registry, RemembersOnItself.id, RemembersOnItself)
    expected = everything(trained(RemembersOnItself(), None))
    assert resumed(RemembersOnItself(), None, tmp_path / "run")["vector"] != expected["vector"]
