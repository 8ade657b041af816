"""Runs of a comparison side by side: when, to the same bits, and what becomes of those that fail or are killed."""

from __future__ import annotations

import json
import os
import select
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import flatfed, read_history, read_json, refused, without_time
from engines.bench import tensors_task
from flatfed.core.configuration.settings import Settings
from flatfed.core.round.sampling import Uniform
from flatfed.experiments.comparing import side_by_side
from flatfed.experiments.comparing.side_by_side import RunsSideBySide, Unfollowed, bytes_of_run, runs_at_once
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.children import DONE, WAIT_SECONDS, Tell, begin
from flatfed.machine import available_memory, is_alive, take_cores, usable_cores, worker_count

SMALL = ("--rounds", "3", "--clients", "5", "--per-round", "2", "--model", "logreg", "--evaluate-every", "1")
METHODS = ("scaffold", "feddyn+sam")


def plan(workers: Any = "auto", **settings: Any) -> Plan:
    return Plan(tensors_task(), ff.make("scaffold"), Settings(rounds=1, lr=0.1, **settings), Uniform(2), None, workers)


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "usable_cores", lambda: 4)
    monkeypatch.setattr(side_by_side, "available_memory", lambda: 2**40)


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(("runs", "at_once"), [(2, 1), (3, 1), (4, 4), (14, 4)])
def test_they_are_side_by_side_where_there_are_as_many_as_cores(runs: int, at_once: int) -> None:
    assert runs_at_once(plan(), runs) == at_once


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize("workers", [0, 2, ff.InProcess()])
def test_whoever_says_how_a_run_is_worked_on_has_one_at_a_time(workers: Any) -> None:
    assert runs_at_once(plan(workers), 14) == 1


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(("jobs", "at_once"), [(1, 1), (2, 2), (9, 9), (99, 14)])
def test_it_can_be_forced(jobs: int, at_once: int) -> None:
    assert runs_at_once(plan(2), 14, jobs) == at_once


@pytest.mark.usefixtures("four_cores")
def test_there_are_no_more_than_memory_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    need = bytes_of_run(plan())
    for share, at_once in ((0, 1), (0.5, 1), (2.5, 2), (4, 4), (100, 4)):
        monkeypatch.setattr(side_by_side, "available_memory", lambda share=share: int(share * need))
        assert runs_at_once(plan(), 14) == at_once


def test_an_accelerator_is_not_forked(monkeypatch: pytest.MonkeyPatch, four_cores: None) -> None:
    assert runs_at_once(plan(device="cuda"), 14) == 1


def test_available_memory_is_the_smaller_of_the_systems_and_the_containers(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:     300 kB\n")
    assert available_memory(meminfo, tmp_path) == 300 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("50000\n")
    assert available_memory(meminfo, tmp_path) == 300 * 1024
    (tmp_path / "memory.max").write_text("150000\n")
    assert available_memory(meminfo, tmp_path) == 100_000
    assert available_memory(tmp_path / "nothing", tmp_path) is None


def compared(out: Path, *more: object, methods: tuple[str, ...] = METHODS) -> Any:
    return flatfed("compare", "digits", *methods, "--seeds", "0,1", *SMALL, *more, "--out", out)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The comparison with one run at a time, in this process."""
    out = tmp_path_factory.mktemp("alone") / "out"
    assert compared(out, "--workers", "0").code == 0
    return out


def same(first: Path, second: Path) -> None:
    runs = sorted(path.relative_to(first) for path in first.glob("*/seed-*"))
    assert len(runs) == 4
    for run in runs:
        assert without_time(read_history(first / run)) == without_time(read_history(second / run))
        newest = Path("checkpoints/round-000003/server.safetensors")
        assert (first / run / newest).read_bytes() == (second / run / newest).read_bytes()


def test_the_bits_are_those_of_one_at_a_time(alone: Path, tmp_path: Path) -> None:
    outcome = compared(tmp_path / "out", "--jobs", "3")
    assert outcome.code == 0, outcome.err
    assert "3 runs at a time, each in a process of its own (--jobs)" in outcome.err
    assert "[4/4]: round 3/3" in outcome.err
    same(alone, tmp_path / "out")
    # What was asked for, not what came of it: a run that is resumed by itself has all workers.
    assert read_json(tmp_path / "out/scaffold/seed-0/config.json")["workers"] == "auto"


def test_what_is_left_is_resumed_side_by_side(alone: Path, tmp_path: Path) -> None:
    assert compared(tmp_path / "out", "--workers", "0", "--rounds", "2").code == 0
    outcome = flatfed("resume", tmp_path / "out", "--rounds", "3", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    same(alone, tmp_path / "out")


def test_runs_with_the_most_work_begin_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    really_begin = RunsSideBySide._begin

    def noted(self: RunsSideBySide, run: Path) -> None:
        begun.append(run.parent.name)
        really_begin(self, run)

    monkeypatch.setattr(RunsSideBySide, "_begin", noted)
    methods = ("fedavg", "fedgmt", "fedsam", "fedprox")
    assert flatfed("compare", "digits", *methods, *SMALL, "--jobs", "2", "--out", tmp_path / "out").code == 0
    # Two backprops per step; a backprop and a teacher's forward pass; one backprop, in the order they were named.
    assert begun == ["fedsam", "fedgmt", "fedavg", "fedprox"]


def test_jobs_of_a_single_run_are_refused(alone: Path) -> None:
    refused(flatfed("resume", alone / "scaffold/seed-0", "--jobs", "2"), "--jobs is for the runs of a comparison")


class Following(Unfollowed):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def started(self, run: Path, done: int) -> None:
        self.heard.append((run.name, done))

    def ended(self, run: Path) -> None:
        self.heard.append((run.name, "ended"))

    def say(self, text: str) -> None:
        self.heard.append(("say", text))


def play(run: Path, tell: Tell) -> None:
    """Stand in for training: a run does what its name says."""
    tell({"done": 0})
    if run.name == "raises":
        raise ValueError("no")
    if run.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    tell({"say": "x" * 300_000})  # more than a pipe holds
    run.write_text(json.dumps({"cores": usable_cores(), "workers": worker_count("auto")}))


def test_one_that_fails_or_is_killed_leaves_the_others_alone(tmp_path: Path) -> None:
    following = Following()
    names = ["raises", "a", "killed", "b"]
    reasons = RunsSideBySide(2, play, following).work(tmp_path / name for name in names)
    assert reasons == {
        tmp_path / "raises": "ValueError: no",
        tmp_path / "killed": "its process was killed (signal 9); the same command again goes on with it",
    }
    for name in names:
        assert (name, 0) in following.heard and (name, "ended") in following.heard
    # Each has one core for itself, and so no worker processes.
    assert [json.loads((tmp_path / name).read_text()) for name in "ab"] == [{"cores": 1, "workers": 0}] * 2
    assert usable_cores() >= 1 and following.heard.count(("say", "x" * 300_000)) == 2


def test_an_interrupt_lets_all_of_them_save(tmp_path: Path) -> None:
    def train(run: Path, tell: Tell) -> None:
        try:
            tell({"done": 0})  # within: from here on it may be asked to stop
            while True:  # until it is asked to stop, and it goes on talking until then
                tell({"say": "y" * 10_000})
        except KeyboardInterrupt:
            run.write_text(str(os.getpid()))
            raise

    class Impatient(Following):
        def say(self, text: str) -> None:
            super().say(text)
            if {name for name, _ in self.heard} >= {"a", "b"}:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RunsSideBySide(2, train, Impatient()).work([tmp_path / "a", tmp_path / "b", tmp_path / "c"])
    assert [(tmp_path / name).exists() for name in "abc"] == [True, True, False]
    for name in "ab":  # none is left
        assert not is_alive(int((tmp_path / name).read_text()))


def test_one_that_has_ended_is_stopped_and_waited_for_without_harm() -> None:
    """An interrupt may come when its end was noticed, and before it was taken from the list."""
    child = begin(lambda tell: tell({"done": 1}))
    while child.ended() is None:
        select.select([child.incoming], [], [], WAIT_SECONDS)
    assert child.listen() == [{"done": 1}]
    child.close()
    child.stop()
    child.wait()
    assert child.ended() == DONE


def test_cores_are_shared_by_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flatfed.machine._Share.cores", None)
    everything = usable_cores()
    take_cores(1)
    assert usable_cores() == 1 and worker_count("auto") == 0 and worker_count(3) == 3
    take_cores(10_000)
    assert usable_cores() == everything
