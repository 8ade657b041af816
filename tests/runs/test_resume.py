"""Resuming: more rounds, nothing left to do, damage on the way, one writer at a time, and clear refusals."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import flatfed as ff
from flatfed.runs.directory import RunDirectory
from records import rewrite
from runs.bench import ROUNDS, digest, in_new_process, small_run, small_task


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return digest(small_run(None))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("finished") / "run"
    small_run(path)
    return path


@pytest.fixture
def run_path(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, in a place that this process does not know."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(path: Path) -> dict[str, bytes]:
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def test_a_finished_run_is_left_as_it_is(run_path: Path, expected: dict[str, Any]) -> None:
    before, played = contents(run_path), list[Any]()
    run = ff.resume(run_path, on_round=played.append)
    assert digest(run) == expected
    assert played == []
    assert contents(run_path) == before


def test_more_rounds_give_what_a_longer_run_gives(tmp_path: Path) -> None:
    """Without an average that depends on the number of rounds, and with every round evaluated."""
    longer = digest(small_run(None, average=None, rounds=ROUNDS + 3))
    small_run(tmp_path / "run", average=None)
    played: list[int] = []
    run = ff.resume(tmp_path / "run", ROUNDS + 3, on_round=lambda row: played.append(row["round"]))
    assert played == [5, 6, 7]
    assert digest(run) == longer
    config = RunDirectory.open(tmp_path / "run").config
    assert config["settings"]["rounds"] == ROUNDS + 3
    assert digest(ff.resume(tmp_path / "run")) == longer, "the new number of rounds is not remembered"


def test_the_number_of_workers_may_change_on_the_way(tmp_path: Path) -> None:
    longer = digest(small_run(None, average=None, rounds=ROUNDS + 2))
    small_run(tmp_path / "run", average=None, workers=2)
    assert digest(ff.resume(tmp_path / "run", ROUNDS + 1, workers=1)) != longer
    assert digest(ff.resume(tmp_path / "run", ROUNDS + 2, workers=0)) == longer


def test_a_schedule_cannot_be_exceeded(tmp_path: Path) -> None:
    cohorts = [[0, 1], [2, 3], [4, 0]]
    small_run(tmp_path / "run", sampling=ff.Replay(cohorts), rounds=3)
    before = contents(tmp_path / "run")
    with pytest.raises(ff.ConfigError):
        ff.resume(tmp_path / "run", 4)
    assert contents(tmp_path / "run") == before, "a refusal must not change the run"


def test_a_damaged_newest_checkpoint_costs_a_round_and_no_bit(run_path: Path, expected: dict[str, Any]) -> None:
    server = run_path / f"checkpoints/round-{ROUNDS:06d}/server.safetensors"
    data = bytearray(server.read_bytes())
    data[-1] ^= 1
    server.write_bytes(bytes(data))
    played, said = list[int](), list[str]()
    run = ff.resume(run_path, on_round=lambda row: played.append(row["round"]), say=said.append)
    assert played == [ROUNDS - 1]
    assert len(said) == 1
    assert "damaged" in said[0]
    assert digest(run) == expected


def test_where_no_checkpoint_is_usable_resume_says_why(run_path: Path) -> None:
    for file in run_path.glob("checkpoints/round-*/server.safetensors"):
        file.write_bytes(b"")
    before = contents(run_path)
    with pytest.raises(ff.CheckpointError, match=r"no usable checkpoint.*damaged.*damaged"):
        ff.resume(run_path)
    after = contents(run_path)
    assert after["history.jsonl"] == before["history.jsonl"]


def test_another_model_does_not_fit(run_path: Path) -> None:
    task = small_task(model=nn.Linear(4, 3))
    with pytest.raises(ff.CheckpointError, match="does not fit"):
        ff.resume(run_path, task=task)


# One writer at a time.

OTHER = """
import sys
from pathlib import Path
import flatfed as ff
from flatfed.runs.directory import RunDirectory
print(RunDirectory.open(Path(sys.argv[1])).status()["status"])
try:
    ff.resume(sys.argv[1])
except ff.ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_two_processes_cannot_continue_one_run(workers: int, tmp_path: Path, expected: dict[str, Any]) -> None:
    path, heard = tmp_path / "run", list[str]()

    def on_round(row: dict[str, Any]) -> None:
        if row["round"] == 1:
            done = in_new_process("-c", OTHER, str(path))
            assert done.returncode == 0, done.stderr
            heard.extend(done.stdout.splitlines())
            assert RunDirectory.open(path).status()["status"] == "running"
            with pytest.raises(ff.ConfigError, match="another process"):
                ff.resume(path)  # not from this process either

    run = small_run(path, on_round=on_round, workers=workers)
    assert heard[0] == "running"
    assert "is being written by another process" in heard[1]
    assert digest(run) == expected
    assert digest(ff.resume(path)) == expected


def test_asking_how_a_run_stands_does_not_let_go_of_its_lock(tmp_path: Path) -> None:
    small_run(tmp_path / "run")
    directory = RunDirectory.open(tmp_path / "run")
    with directory.lock():
        for _ in range(2):
            directory.status()
            directory.summary()
        done = in_new_process("-c", OTHER, str(tmp_path / "run"))
    assert "is being written by another process" in done.stdout, done.stderr


# Directories that cannot be used.


def test_a_place_that_holds_a_run_is_refused(run_path: Path) -> None:
    before = contents(run_path)
    with pytest.raises(ff.ConfigError, match="already holds a run") as caught:
        small_run(run_path)
    assert f"flatfed resume {run_path}" in str(caught.value)
    assert contents(run_path) == before


def test_a_place_that_holds_anything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ff.ConfigError, match="not empty"):
        small_run(tmp_path)
    with pytest.raises(ff.ConfigError, match="exists"):
        small_run(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_empty_directory_and_new_parents_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert small_run(tmp_path / "empty", rounds=1).status == "finished"
    assert small_run(tmp_path / "a/b/c", rounds=1).path == tmp_path / "a/b/c"


def test_a_place_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ff.ConfigError, match="cannot be created"):
        small_run(tmp_path / "file/run")
    if Path("/proc/self").exists():
        with pytest.raises(ff.ConfigError, match="cannot be created"):
            small_run(Path("/proc/flatfed/run"))  # not even root makes directories there


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_parent_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ff.ConfigError, match="cannot be created"):
            small_run(tmp_path / "run")
    finally:
        tmp_path.chmod(0o700)


def test_what_is_no_run_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ff.ConfigError, match="does not exist"):
        ff.resume(tmp_path / "nowhere")
    with pytest.raises(ff.ConfigError, match=r"no config\.json"):
        ff.resume(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "cannot be read"), ("[]", "JSON object"), ('{"format": 99}', "format 99"), ('{"format": 1}', "lacks")],
)
def test_a_broken_configuration_is_refused(text: str, reason: str, run_path: Path) -> None:
    (run_path / "config.json").write_text(text)
    with pytest.raises(ff.CheckpointError, match=reason):
        ff.resume(run_path)


@pytest.mark.parametrize("name", ["run", "task", "algorithm", "settings", "sampler", "average", "workers"])
def test_a_configuration_that_lacks_something_says_what(name: str, run_path: Path) -> None:
    config = json.loads((run_path / "config.json").read_text())
    del config[name]
    rewrite(run_path / "config.json", config)
    with pytest.raises(ff.FlatfedError, match=name):
        ff.resume(run_path)


def test_a_run_directory_may_be_moved(run_path: Path, expected: dict[str, Any]) -> None:
    moved = run_path.rename(run_path.with_name("moved"))
    actual = digest(ff.resume(moved))
    assert actual == expected
    assert len(actual["history"]) == ROUNDS
