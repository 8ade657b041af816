"""Kill -9 at any moment; the resumed run equals the uninterrupted one, bit for bit.

The kill points are real: the process kills itself before its n-th system call, or the kernel ends it in the
middle of a write. See `killer.py`.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from flatfed.runs.directory import RunDirectory
from methods.designs import WHOLE
from runs.bench import ROUNDS, digest, in_new_process, litter, small_run

Reports = dict[str, dict[str, Any]]

STEP = 1 if WHOLE else 3
"""Every third system call is died before; every one in `make battery`."""

KILLED, CUT_OFF = -signal.SIGKILL, -signal.SIGXFSZ


def kill(directory: Path, jobs: dict[str, dict[str, Any]]) -> Reports:
    """Play the jobs in one driver and return their reports by name."""
    file = directory / "jobs.json"
    file.write_text(json.dumps([{"name": name, **job} for name, job in jobs.items()]))
    done = in_new_process("-m", "runs.killer", str(file), timeout=1200)
    assert done.returncode == 0, done.stderr
    return dict(zip(jobs, json.loads(done.stdout), strict=True))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """The run that nobody disturbs."""
    return digest(small_run(None))


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """How many system calls there are to die before: in two checkpoints, up to round 0, and in resuming."""
    jobs = {
        "two": {"kind": "count", "n": 0},
        "start": {"kind": "count first", "n": 0},
        "resume": {"kind": "steps", "n": 3},
    }
    reports = kill(tmp_path_factory.mktemp("count"), jobs)
    assert {"fsync", "rename", "pwrite", "mkdir", "unlink", "rmdir"} <= set(reports["two"]["calls"])
    assert len(reports["two"]["calls"]) > 30
    return reports


Jobs = dict[str, dict[str, Any]]


def jobs_of_bytes(directory: Path) -> Jobs:
    """Limits below the size of the clients' states, of their index, of the server's tensors and of the manifest."""
    small_run(directory / "sizes", rounds=3)
    sizes = {f.name: f.stat().st_size for f in (directory / "sizes/checkpoints/round-000003").iterdir()}
    states, index = ((directory / "sizes/checkpoints/states").glob(f"*.{kind}") for kind in ("states", "index"))
    kinds = {"states": next(states).stat().st_size, "index": next(index).stat().st_size}
    server, manifest = sizes["server.safetensors"], sizes["checkpoint.json"]
    lengths = {*kinds.values(), server, manifest}
    assert len(lengths) == 4
    limits = {0, 1, 8, 100, *(n - 1 for n in lengths), (kinds["states"] + server) // 2}
    below = {n for n in limits if n < max(server, kinds["states"])}  # what is shorter is never the first to fail
    return {f"bytes-{n}": {"kind": "bytes", "n": n} for n in below}


def jobs_of_rounds() -> Jobs:
    jobs: Jobs = {f"step-{n}": {"kind": "steps", "n": n} for n in (0, 1, 5, 8, 9, 17)}
    jobs["between"] = {"kind": "between", "n": 0}
    jobs["between, with workers"] = {"kind": "between", "n": 0, "workers": 2}
    return jobs


@pytest.fixture(scope="module")
def reports(calls: Reports, expected: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reports]:
    """The reports of all jobs by test: one driver plays them, because most of its time it imports torch."""
    directory = tmp_path_factory.mktemp("kill")
    two, start, resume = (len(calls[name]["calls"]) for name in ("two", "start", "resume"))
    assert resume > 40
    length = len(expected["history"][2])  # the row has `seconds` in addition, so that all of these are inside it
    first = len(expected["history"][0])
    jobs: dict[str, Jobs] = {
        "calls": {f"call-{n}": {"kind": "calls", "n": n} for n in range(0, two, STEP)},
        "bytes": jobs_of_bytes(directory),
        "history": {f"history-{n}": {"kind": "history", "n": n} for n in (0, 1, 9, 40, length // 2, length)},
        "rounds": jobs_of_rounds(),
        "dead": {"dead": {"kind": "steps", "n": 3, "resume": False}},
        "again": {f"again-{n}": {"kind": "steps", "like": "dead", "again": n} for n in range(0, resume, 3)},
        "again, cut off": {
            f"again-bytes-{n}": {"kind": "steps", "like": "dead", "again_bytes": n}
            for n in (0, 1, first // 2, first + 10, 2 * first)
        },
        "first": {f"first-{n}": {"kind": "first", "n": n} for n in range(0, start, STEP)},
    }
    done = kill(directory, {name: job for group in jobs.values() for name, job in group.items()})
    return {group: {name: done[name] for name in names} for group, names in jobs.items()}


def check(reports: Reports, expected: dict[str, Any], how: int = KILLED) -> None:
    """Every run died as it should, and every resumed run came to the same bits."""
    assert {name: r["ended"] for name, r in reports.items()} == dict.fromkeys(reports, how)
    wrong = {name: r.get("error", r.get("resumed")) for name, r in reports.items() if "bits" not in r}
    assert not wrong, "could not be resumed"
    for name, report in reports.items():
        assert report["bits"]["history"] == expected["history"], name
        assert report["bits"] == expected, name


def test_killed_before_any_system_call_of_two_checkpoints(
    reports: dict[str, Reports], expected: dict[str, Any]
) -> None:
    check(reports["calls"], expected)


def test_a_kill_in_a_checkpoint_leaves_no_litter_once_the_run_is_resumed(reports: dict[str, Reports]) -> None:
    """Most of one checkpoint: states half-written, a directory half-made, old ones half-removed."""
    calls = STEP * len(reports["calls"])
    killed = [reports["calls"][f"call-{n}"] for n in range(STEP, calls // 2, STEP)]
    assert [report["litter"] for report in killed if report["litter"]] == []


def test_cut_off_at_any_byte_of_the_files_of_a_checkpoint(
    reports: dict[str, Reports], expected: dict[str, Any]
) -> None:
    check(reports["bytes"], expected, CUT_OFF)


def test_cut_off_at_any_byte_of_a_history_row(reports: dict[str, Reports], expected: dict[str, Any]) -> None:
    check(reports["history"], expected, CUT_OFF)


def test_killed_during_and_between_rounds(reports: dict[str, Reports], expected: dict[str, Any]) -> None:
    check(reports["rounds"], expected)


def test_killed_again_before_any_system_call_while_resuming(
    reports: dict[str, Reports], expected: dict[str, Any]
) -> None:
    """The first resumption dies while it cuts the history, says that it runs, or writes its own checkpoints."""
    assert {r["ended_again"] for r in reports["again"].values()} == {KILLED}
    check(reports["again"], expected)


def test_cut_off_at_any_byte_while_resuming(reports: dict[str, Reports], expected: dict[str, Any]) -> None:
    """Among the first things that a resumption writes is a shorter history: the longer one must outlive it."""
    assert {r["ended_again"] for r in reports["again, cut off"].values()} == {CUT_OFF}
    check(reports["again, cut off"], expected)


def test_killed_before_the_first_checkpoint_is_complete(reports: dict[str, Reports], expected: dict[str, Any]) -> None:
    """From the moment that the directory is a run's, it can be resumed; before, it says that it is none."""
    before = {name: r for name, r in reports["first"].items() if not r["was_run"]}
    assert all("is not a run directory" in r["error"] for r in before.values())
    check({name: r for name, r in reports["first"].items() if r["was_run"]}, expected)


def test_a_killed_run_is_resumed_in_this_process_as_well(tmp_path: Path, expected: dict[str, Any]) -> None:
    reports = kill(tmp_path, {"run": {"kind": "calls", "n": 9, "resume": False}})
    assert reports["run"]["ended"] == KILLED
    assert RunDirectory.open(tmp_path / "run").status()["status"] == "interrupted"
    played: list[int] = []
    run = ff.resume(tmp_path / "run", on_round=lambda row: played.append(row["round"]))
    assert played == [2, 3, 4]
    assert digest(run) == expected
    assert len(run.history) == ROUNDS
    assert litter(tmp_path / "run") == []
