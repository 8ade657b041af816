"""A study's workers on a cluster: an array job that shares the folder; what is pre-empted saves and comes back."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from submitit.local.local import LocalExecutor

from cli.command import flatfed
from flatfed.core.errors import ConfigError
from flatfed.named_code import NamedBy
from flatfed.studies.drawing.figure import CLASSES
from flatfed.studies.launching.slurm import minutes
from flatfed.studies.launching.worker_job import WorkerJob
from flatfed.studies.reading import read_study
from flatfed.studies.run_study import RunningStudy
from studies.bench import begin, digests, until, written
from studies.stand_in_slurm import StandInSlurm

STUDY: dict[str, Any] = {"model": "nets:Gated", "seeds": [0, 1]}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    end = begin(written(folder, **STUDY), "--jobs", "1").end()
    assert end.returncode == 0, end.stderr
    return digests(folder / "out")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInSlurm]:
    stand_in = StandInSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{stand_in.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    yield stand_in
    stand_in.close()


def owner(folder: Path) -> int:
    """Return the process of a worker that has a cell."""
    leases = [json.loads(file.read_text()) for file in (folder / "out" / "leases").glob("*/0*")]
    return next(int(lease["pid"]) for lease in leases if not lease["released"])


def wait_at_gate(folder: Path, children: int) -> None:
    """Wait until the children of all workers train, and hear signals."""
    until(lambda: len(list(folder.glob("waits-*"))) == children)


def test_workers_of_an_array_share_the_cells_and_one_that_is_preempted_comes_back(
    slurm: StandInSlurm, tmp_path: Path, expected: dict[str, object], signals_heard: None
) -> None:
    written(tmp_path, **STUDY)
    (tmp_path / "gate").touch()
    options = ["--launcher", "slurm", "--jobs", 2, "--slurm", "partition=short", "--slurm", "time=1:30:00"]
    launched = flatfed("study", "run", "study.yaml", "--out", "out", *options, "--slurm", "reservation=mine")
    assert launched.code == 0, launched.err
    assert "submitted 2 workers for 2 cells: job 4711 (4711_0, 4711_1)" in launched.out
    assert f"logs: {tmp_path / 'out' / 'slurm'}" in launched.out
    assert "follow: flatfed study show out" in launched.out
    assert "cancel: scancel --state=PENDING 4711 ; scancel --signal=INT 4711" in launched.out
    given = json.loads((slurm.folder / "given.json").read_text())
    assert (given["array"], given["partition"], given["time"]) == ("0-1%2", "short", "90")
    assert (given["signal"], given["reservation"], given["requeue"]) == ("USR1@90", "mine", "")
    wait_at_gate(tmp_path, 2)
    os.kill(owner(tmp_path), signal.SIGUSR1)
    until(lambda: list(tmp_path.glob("told-*")))
    (tmp_path / "gate").unlink()
    until(lambda: len(slurm.codes()) == 2)
    assert slurm.codes() == {"4711_0": 0, "4711_1": 0}, logs(tmp_path)
    assert len(slurm.came_back()) == 1
    assert "pre-empted; the cells are saved" in logs(tmp_path)
    assert digests(tmp_path / "out") == expected
    assert (tmp_path / "out" / "table.md").exists()
    assert not (tmp_path / "out" / "failures").exists()
    again = flatfed("study", "run", "study.yaml", "--out", "out", "--launcher", "slurm")
    assert again.code == 0
    assert "nothing is left to do" in again.err


def logs(folder: Path) -> str:
    return "".join(file.read_text() for file in sorted((folder / "out" / "slurm").glob("*.err")))


def test_a_worker_that_is_cancelled_saves_and_stays_away(
    slurm: StandInSlurm, tmp_path: Path, expected: dict[str, object], signals_heard: None
) -> None:
    file = written(tmp_path, **STUDY)
    (tmp_path / "gate").touch()
    launched = flatfed("study", "run", "study.yaml", "--out", "out", "--launcher", "slurm", "--jobs", 1, "--json")
    assert launched.code == 0, launched.err
    assert json.loads(launched.out)["jobs"] == ["4711"]
    wait_at_gate(tmp_path, 1)
    os.kill(owner(tmp_path), signal.SIGINT)
    until(lambda: list(tmp_path.glob("told-*")))
    (tmp_path / "gate").unlink()
    until(slurm.codes)
    assert slurm.codes() == {"4711": 130}
    assert slurm.came_back() == []
    assert "interrupted; the cells are saved" in logs(tmp_path)
    assert begin(file, "--jobs", "2").end().returncode == 0
    assert digests(tmp_path / "out") == expected


def test_a_process_of_submitit_that_is_terminated_goes_on(
    tmp_path: Path, expected: dict[str, object], monkeypatch: pytest.MonkeyPatch, signals_heard: None
) -> None:
    file = written(tmp_path, **STUDY)
    (tmp_path / "gate").touch()
    monkeypatch.setenv("SUBMITIT_PREEMPT_SIGNAL", "USR1")
    monkeypatch.chdir(tmp_path)
    by = NamedBy(file)
    running = RunningStudy(read_study(file), tmp_path / "out", by)
    running.enter()
    executor = LocalExecutor(tmp_path / "out" / "slurm")
    executor.update_parameters(timeout_min=60)
    with executor.batch():
        jobs = [executor.submit(WorkerJob(running.study, tmp_path / "out", tmp_path, by, 60.0)) for _ in range(2)]
    wait_at_gate(tmp_path, 2)
    os.kill(owner(tmp_path), signal.SIGTERM)
    until(lambda: list(tmp_path.glob("told-*")))
    (tmp_path / "gate").unlink()
    assert [job.result() for job in jobs] == [f"all cells of {tmp_path / 'out'} have ended"] * 2
    assert "Requeued job" in "".join(each.read_text() for each in (tmp_path / "out" / "slurm").glob("*log*"))
    assert digests(tmp_path / "out") == expected


def test_without_slurm_or_submitit_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: StandInSlurm
) -> None:
    file = written(tmp_path)
    arguments = ("study", "run", file, "--out", tmp_path / "out", "--launcher", "slurm")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "submitit", None)
        outcome = flatfed(*arguments)
    assert outcome.code == 2
    assert "pip install 'flatfed[slurm]'" in outcome.err
    (slurm.folder / "sbatch").unlink()
    outcome = flatfed(*arguments)
    assert outcome.code == 2
    assert "there is no sbatch on the PATH" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_job_that_sbatch_refuses_is_a_sentence(slurm: StandInSlurm, tmp_path: Path) -> None:
    written(tmp_path)
    (slurm.folder / "sbatch").write_text("#!/bin/sh\necho 'invalid partition specified: none' >&2\nexit 1\n")
    outcome = flatfed("study", "run", "study.yaml", "--out", "out", "--launcher", "slurm")
    assert outcome.code == 2
    assert "sbatch refused the job" in outcome.err
    assert "invalid partition" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("given", ["array=0-3", "signal=USR2@5", "nodes=2", "=short", "time=soon"])
def test_options_that_cannot_be_given(given: str, slurm: StandInSlurm, tmp_path: Path) -> None:
    written(tmp_path)
    outcome = flatfed("study", "run", "study.yaml", "--out", "out", "--launcher", "slurm", "--slurm", given)
    assert outcome.code == 2
    assert "--slurm" in outcome.err


def test_what_follows_the_training_is_work_for_the_cluster_too(slurm: StandInSlurm, tmp_path: Path) -> None:
    written(tmp_path, seeds=[0, 1])
    assert begin(tmp_path / "study.yaml", "--jobs", "1").end().returncode == 0
    command = ["study", "run", "study.yaml", "--out", "out", "--launcher", "slurm"]
    done = flatfed(*command)
    assert (done.code, done.out) == (0, "")
    assert "nothing is left to do" in done.err
    written(tmp_path, seeds=[0, 1], report={"flatness": "parameter_norm", "figures": {"c": {"draw": CLASSES}}})
    launched = flatfed(*command, "--jobs", 1)
    assert launched.code == 0, launched.err
    assert "submitted 1 workers for 2 runs to measure and 1 pictures to draw" in launched.out
    until(lambda: len(slurm.codes()) == 1)
    assert set(slurm.codes().values()) == {0}, logs(tmp_path)
    assert (tmp_path / "out" / "flatness.md").exists()
    assert "nothing is left to do" in flatfed(*command).err


def test_options_of_slurm_are_for_slurm(tmp_path: Path) -> None:
    outcome = flatfed("study", "run", written(tmp_path), "--slurm", "partition=short")
    assert outcome.code == 2
    assert "add that, or leave it out" in outcome.err


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("30:01", 31), ("2:00:00", 120), ("1-12", 2160), ("1-12:30", 2190)]
)
def test_times_of_slurm(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-5", "1:2:3:4", "a day"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="time"):
        minutes(text)
