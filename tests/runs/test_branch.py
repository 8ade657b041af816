"""A branch: an average that begins late, on top of a run that was trained without it, to the same bits."""

from __future__ import annotations

import functools
import json
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from cli.command import fingerprint
from engines.bench import assert_same, bits
from flatfed.runs.directory import RunDirectory
from flatfed.runs.records.files import read_json
from runs.bench import POPULATION, digest, in_new_process, litter, small_run, small_task

ROUNDS, KEPT = 12, (3, 6, 9)
SETTINGS = {
    "rounds": ROUNDS,
    "checkpoint_every": None,
    "keep_checkpoints": KEPT,
    "evaluate_every": 5,
    "evaluate_last": 2,
}
SWA = {"start": 0.5, "cycle": 2, "lr_low": 0.01}


@functools.cache
def task() -> ff.Task:
    """One for all: a recipe on disk names parameters by where they lie in memory."""
    return small_task()


def source(out: Path, **changes: Any) -> Path:
    """A run without an average, FedDyn with SAM: server and clients have states."""
    small_run(out, task(), **(SETTINGS | {"average": None} | changes))
    return out


def whole(out: Path | None, average: ff.Average, **changes: Any) -> dict[str, Any]:
    """The uninterrupted run with the average."""
    return bits(small_run(out, task(), average=average, **(SETTINGS | changes)), POPULATION)


def config(path: Path) -> dict[str, Any]:
    return {name: value for name, value in RunDirectory.open(path).config.items() if name != "run"}


@pytest.mark.parametrize(("mode", "workers"), [("end-of-cycle", 0), ("end-of-cycle", 2), ("official", 0), ("paper", 2)])
def test_a_branch_is_the_whole_run_to_the_bit(mode: str, workers: int, tmp_path: Path) -> None:
    run, average = source(tmp_path / "run", workers=workers), ff.SWA(mode=mode, **SWA)
    before = fingerprint(run)
    played: list[int] = []
    branched = ff.branch(run, average, tmp_path / "branch", on_round=lambda row: played.append(row["round"]))
    assert played == list(range(6, ROUNDS))
    assert_same(bits(branched, POPULATION), whole(tmp_path / "whole", average, workers=workers))
    assert branched.eval_vector.ne(branched.vector).any()
    assert config(tmp_path / "branch") == config(tmp_path / "whole")
    assert fingerprint(run) == before
    assert litter(tmp_path / "branch") == []
    origin = read_json(tmp_path / "branch" / "branch.json")
    assert origin == {"run": RunDirectory.open(run).config["run"], "path": str(run), "round": 6}


def test_what_lies_in_the_directory_is_what_was_returned(tmp_path: Path) -> None:
    average = ff.SWA(**SWA)
    run = ff.branch(source(tmp_path / "run"), average, tmp_path / "branch")
    assert_same(bits(ff.load_run(tmp_path / "branch"), POPULATION), bits(run, POPULATION))


@pytest.mark.parametrize("round", [3, 6])
def test_the_round_may_be_chosen(round: int, tmp_path: Path) -> None:
    average = ff.SWA(**SWA)
    branched = ff.branch(source(tmp_path / "run"), average, tmp_path / "branch", round=round)
    assert_same(bits(branched, POPULATION), whole(None, average))


@pytest.mark.parametrize("last", [None, 2])
def test_a_branch_may_be_longer_than_its_run(last: int | None, tmp_path: Path) -> None:
    """SWA after the budget: rows that only the end of the shorter run had evaluated are as in the longer one."""
    average = ff.SWA(start=0.75, cycle=2, lr_low=0.01)  # from round 12 of 16 on
    branched = ff.branch(source(tmp_path / "run", evaluate_last=last), average, tmp_path / "branch", rounds=16)
    assert_same(bits(branched, POPULATION), whole(None, average, rounds=16, evaluate_last=last))
    assert json.loads((tmp_path / "branch" / "branch.json").read_text())["round"] == ROUNDS


def test_an_interrupted_branch_resumes_to_the_same_bits(tmp_path: Path) -> None:
    def press(row: dict[str, Any]) -> None:
        if row["round"] == 8:
            signal.raise_signal(signal.SIGINT)

    average = ff.SWA(**SWA)
    with pytest.raises(KeyboardInterrupt):
        ff.branch(source(tmp_path / "run"), average, tmp_path / "branch", on_round=press, workers=2)
    assert_same(bits(ff.resume(tmp_path / "branch"), POPULATION), whole(None, average))


def test_a_process_that_knows_nothing_of_the_run_branches_and_resumes(tmp_path: Path) -> None:
    """The task's tensors go with the branch: the run may be gone then."""
    run = source(tmp_path / "run")
    code = "import sys, flatfed as ff; ff.branch(sys.argv[1], ff.SWA(start=0.5, cycle=2, lr_low=0.01), sys.argv[2])"
    done = in_new_process("-c", code, str(run), str(tmp_path / "branch"))
    assert done.returncode == 0, done.stderr
    run.rename(tmp_path / "elsewhere")
    actual = digest(ff.load_run(tmp_path / "branch"))
    assert actual == digest(small_run(None, rounds=ROUNDS, average=ff.SWA(**SWA), evaluate_every=5, evaluate_last=2))


def test_a_run_that_was_stopped_is_as_good(tmp_path: Path) -> None:
    def press(row: dict[str, Any]) -> None:
        if row["round"] == 6:
            signal.raise_signal(signal.SIGINT)

    source(tmp_path / "run", on_round=press)
    average = ff.SWA(**SWA)
    assert_same(bits(ff.branch(tmp_path / "run", average, tmp_path / "branch"), POPULATION), whole(None, average))


def test_a_branch_from_the_very_beginning_is_possible(tmp_path: Path) -> None:
    run, average = source(tmp_path / "run", keep_checkpoints=(0,)), ff.WIMA(window=3)
    branched = ff.branch(run, average, tmp_path / "branch")
    assert_same(bits(branched, POPULATION), whole(None, average))


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path) -> None:
    run, said = source(tmp_path / "run"), list[str]()
    (run / "checkpoints" / "round-000006" / "server.safetensors").write_bytes(b"")
    average = ff.SWA(**SWA)
    branched = ff.branch(run, average, tmp_path / "branch", say=said.append)
    assert_same(bits(branched, POPULATION), whole(None, average))
    assert "round 6 cannot be used" in said[0]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no checkpoint": (
        {"average": ff.SWA(start=0.1)},
        r"swa begins after 1 rounds of 12, .*that early .*rounds 3, 6, 9, 11, 12\).*keep_checkpoints 1",
    ),
    "wima": ({"average": ff.WIMA()}, r"wima begins in the first round, .* train feddyn\+sam\+wima instead"),
    "too late": ({"round": 9}, "swa begins after 6 rounds of 12; round 9 is too late"),
    "not there": ({"round": 4}, "no checkpoint of round 4; there are those of 3, 6, 9, 11, 12"),
    "no average": ({"average": "swa"}, "average must be ff.SWA"),
    "not evaluated": ({"rounds": 7, "average": ff.SWA(start=0.9)}, r"was not evaluated after round 6, as a run of 7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case: str, tmp_path: Path) -> None:
    changes, reason = REFUSED[case]
    run = source(tmp_path / "run")
    with pytest.raises(ff.FlatfedError, match=reason):
        ff.branch(run, **{"average": ff.SWA(**SWA), "out": tmp_path / "branch", **changes})
    assert not (tmp_path / "branch").exists()


def test_a_run_with_an_average_is_refused(tmp_path: Path) -> None:
    whole(tmp_path / "run", ff.SWA(**SWA))
    with pytest.raises(ff.ConfigError, match=r"run has an average already, swa; branch from a run without one"):
        ff.branch(tmp_path / "run", ff.WIMA(), tmp_path / "branch")


def test_a_directory_that_holds_something_is_refused(tmp_path: Path) -> None:
    run = source(tmp_path / "run")
    with pytest.raises(ff.ConfigError, match="already holds a run"):
        ff.branch(run, ff.SWA(**SWA), run)
