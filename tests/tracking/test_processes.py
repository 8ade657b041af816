"""The process that sends: it outlives a run that is killed, ends by itself, and is no loss when it is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import alive, eventually
from flatfed.runs.directory import RunDirectory
from flatfed.tracking.record import read_sent
from flatfed.tracking.run_tracking import SenderProcess, send
from flatfed.tracking.sender import ROWS
from flatfed.tracking.subject import point_of, subject_of
from reports.disk import write_run
from runs.bench import ROUNDS, digest, in_new_process, small_run
from tracking.readers import from_tensorboard
from tracking.stubborn import Lines
from tracking.table import steps

KILLED = """
import os, signal, sys
from pathlib import Path
from runs.bench import small_run
record = Path(sys.argv[1], "tracking/tensorboard/sent.json")


def die(row):
    if row["round"] == 2:
        while not record.exists():
            pass
        os.kill(os.getpid(), signal.SIGKILL)


small_run(Path(sys.argv[1]), track="tensorboard", on_round=die, workers=2)
"""


def sent(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((path / "tracking/tensorboard/sent.json").read_text())
    return record


def test_a_run_that_is_killed_is_sent_as_far_as_it_came_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert in_new_process("-c", KILLED, str(path)).returncode == -signal.SIGKILL
    eventually(lambda: sent(path)["status"] == "interrupted", "the rest is sent")
    found = from_tensorboard(path / "tensorboard")
    assert found.status.startswith("interrupted")
    assert steps(found)[:3] == [1, 2, 3]
    assert digest(ff.resume(path)) == digest(small_run(None))
    found = from_tensorboard(path / "tensorboard")
    assert steps(found) == list(range(1, ROUNDS + 1))
    assert found.status == "finished"


def test_a_sender_that_is_killed_costs_a_sentence_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    path, tracker = tmp_path / "run", ff.TensorBoard()
    pids: list[int] = []

    def kill(row: dict[str, Any]) -> None:
        if row["round"] == 1:
            eventually(lambda: (path / "tracking/tensorboard/sent.json").exists() and sent(path)["rounds"], "a row")
            pids.extend(senders())
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    with pytest.warns(UserWarning, match="not all is there; send the rest with: flatfed track"):
        small_run(path, track=tracker, on_round=kill)
    assert len(pids) == 1
    record = read_sent(path, tracker)
    record.rounds = 0  # as if it had been killed between the last row and its record
    record.write()
    assert send(tracker, [path])
    assert steps(from_tensorboard(path / "tensorboard")) == list(range(1, ROUNDS + 1))


def senders() -> list[int]:
    """Return the processes of this one that send."""
    tasks = Path("/proc/self/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return [pid for pid in children if b"tracking.sender" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_sender_ends_with_its_parent_and_is_a_session_of_its_own(tmp_path: Path) -> None:
    small_run(tmp_path / "run")
    process = SenderProcess(ff.TensorBoard(), [tmp_path / "run"], follows=True)
    [pid] = eventually(senders, "its command line is there")
    assert os.getsid(pid) == pid, "Ctrl-C on a terminal is for the run alone"
    process.stop()
    assert not alive(pid)


HANGS = """
import os, signal, sys
from pathlib import Path
from runs.bench import small_run
from tracking.stubborn import Lines
from tracking.test_processes import senders
folder = Path(sys.argv[1])


def die(row):
    while not (folder / "left").exists():
        pass
    (folder / "sender").write_text(str(senders()[0]))
    os.kill(os.getpid(), signal.SIGKILL)


small_run(folder / "run", track=Lines(str(folder), hangs=True, leaves=True, patience=0.5), on_round=die)
"""


def test_a_tracker_that_hangs_does_not_outlive_a_run_that_is_killed(tmp_path: Path) -> None:
    assert in_new_process("-c", HANGS, str(tmp_path)).returncode == -signal.SIGKILL
    for name in ("sender", "left"):
        pid = int((tmp_path / name).read_text())
        eventually(lambda pid=pid: not alive(pid), f"the process of {name} has ended")


def test_what_a_tracker_has_started_ends_with_it(tmp_path: Path) -> None:
    small_run(tmp_path / "run")
    assert send(Lines(str(tmp_path), leaves=True), [tmp_path / "run"])
    pid = int((tmp_path / "left").read_text())
    eventually(lambda: not alive(pid), "it has ended")


def test_a_long_history_goes_in_pieces(tmp_path: Path) -> None:
    write_run(tmp_path / "run", accuracies=(0.5,) * 250)
    assert send(Lines(str(tmp_path)), [tmp_path / "run"])
    calls = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    pieces = [value for call, value in calls if call == "points"]
    assert [step for piece in pieces for step in piece] == list(range(1, 251))
    assert max(map(len, pieces)) == ROWS


def test_patience_is_for_all_directories_together(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    runs = [write_run(tmp_path / f"run-{number}") for number in range(45)]
    with pytest.warns(UserWarning, match="lines takes nothing"):
        assert not send(Lines(str(tmp_path), patience=15.0), runs)
    # Each takes half a second at least.
    assert not (runs[-1] / "tracking").exists()


def test_a_run_that_another_process_trains_is_sent_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "run"
    seen: list[tuple[str, int]] = []

    def look(row: dict[str, Any]) -> None:
        if row["round"] == 2:
            assert send(ff.TensorBoard(), [path])
            found = from_tensorboard(path / "tensorboard")
            seen.append((found.status, len(found.rounds)))

    small_run(path, on_round=look)
    assert seen == [("", 3)]
    assert send(ff.TensorBoard(), [path])
    found = from_tensorboard(path / "tensorboard")
    assert (found.status, steps(found)) == ("finished", list(range(1, ROUNDS + 1)))


def test_what_a_run_is_told_as(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    subject = subject_of(tmp_path / "run")
    assert subject.parameters["algorithm.client_opt.rho"] == 0.05
    assert subject.parameters["settings.lr"] == 0.1
    assert (subject.tags["method"], subject.tags["seed"]) == ("feddyn+sam+swa", "0")
    assert subject.tags["flatfed_run"] == RunDirectory.open(tmp_path / "run").config["run"]
    point = point_of(run.history[0] | {"sites": {"a": {"loss": 1.0}}, "rejected": [{}, {}]}, 1000, 0.5)
    assert (point.step, point.milliseconds, point.values["round"]) == (1, 1500, 1.0)
    assert (point.values["sites/a/loss"], point.values["rejected"]) == (1.0, 2.0)
    assert "clients" not in point.values
