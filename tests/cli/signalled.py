"""Started as `python -P signalled.py JOBS`: runs commands of flatfed, each in a process group of its own, and reports.

Each is forked after the imports: as fresh as one that was just started, without the seconds that importing torch takes.
Signals come from the model that is trained (`NET`): it says when, so that none comes too early or too late.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import Any

import sklearn.datasets  # noqa: F401  (imported here, once, and not in each fork)
import torch.func  # noqa: F401

import flatfed.reports.write as flatfed_reports
from flatfed.cli.main import main
from flatfed.engines.processes.pool import ProcessEngine

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT)
SECONDS = 300.0
"""A bound for a broken program, never a pace."""

NET = """
import json, os, time
from pathlib import Path
from torch import nn

ORDER = Path("order.json")


class Net(nn.Module):
    def __init__(self, classes, in_channels, image_size):
        super().__init__()
        self.flatten, self.head = nn.Flatten(), nn.Linear(in_channels * image_size**2, classes)
        follow("make")

    def forward(self, x):
        follow("train" if self.training else "test")
        return self.head(self.flatten(x))


def follow(moment):
    try:
        order = json.loads(ORDER.read_text())
    except FileNotFoundError:  # there is none, or another worker has just taken it
        return
    if order["moment"] != moment or not due(order, moment):
        return
    taken = Path(f"order.{os.getpid()}")
    try:
        ORDER.rename(taken)
    except FileNotFoundError:  # another worker was first
        return
    if order["signal"] is None:
        Path("ready").touch()
        while not Path("go").exists():
            time.sleep(0.005)
    else:
        os.killpg(0, order["signal"])


def due(order, moment):
    status, history = Path(order["run"], "status.json"), Path(order["run"], "history.jsonl")
    if moment == "train" and not (status.exists() and json.loads(status.read_text())["status"] == "running"):
        return False  # a trial of the model, before it is trained
    return order["rows"] <= (history.read_bytes().count(b"\\n") if history.exists() else 0)
"""


def command(folder: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Run one command in a fork and return how it ended."""
    (folder / "net.py").write_text(NET)
    if "frozen" in job:
        freeze(Path(job["frozen"]), folder / "run")
    if "order" in job:
        (folder / "order.json").write_text(json.dumps(job["order"]))
    out, err = folder / "out.txt", folder / "err.txt"
    leader, follower = os.openpty() if job.get("terminal") else (None, None)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.setsid()
        for number in STOP:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if job.get("obeys"):
            obey_permissions()
        if "closing" in job:
            signal_when_closed(job["closing"])
        if job.get("nohup"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if follower is None:
            redirect(job.get("out", str(out)), 1)
            redirect(job.get("err", str(err)), 2)
        else:
            os.close(leader)
            ioctl(follower, termios.TIOCSCTTY, 0)
            for number in (0, 1, 2):
                os.dup2(follower, number)
            os.close(follower)
        flatfed(job["arguments"])
    if leader is not None and follower is not None:
        os.close(follower)
        close_terminal(folder, leader)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"code": code, "out": text(out), "err": text(err)}


def freeze(source: Path, copy: Path) -> None:
    """Make a copy of a run as if it had been killed, which nobody may write."""
    if copy.exists():
        return
    shutil.copytree(source, copy)
    (copy / "status.json").write_text('{"status": "running", "reason": ""}')
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def obey_permissions() -> None:
    """Let file permissions count for this process, also where it is the superuser's."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    library = ctypes.CDLL(None)
    assert library.capget(header, data) == 0
    data[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH among the effective ones
    assert library.capset(header, data) == 0


def signal_when_closed(number: int) -> None:
    """Let a signal come when the first engine has done its work and ends its workers."""
    close = ProcessEngine.close

    def closing(engine: ProcessEngine) -> None:
        ProcessEngine.close = close  # type: ignore[method-assign]
        signal.raise_signal(number)
        engine.close()

    ProcessEngine.close = closing  # type: ignore[method-assign]


def redirect(target: str, number: int) -> None:
    """Let a descriptor lead to a file, or to a pipe that nobody reads."""
    if target == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, number)
        os.close(writer)
        return
    opened = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, number)
    os.close(opened)


def flatfed(arguments: list[str]) -> None:
    """Run a command and end this process as it ends."""
    code = 70
    try:
        main(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def close_terminal(folder: Path, leader: int) -> None:
    """Close a terminal once the command says that it trains."""
    end = time.monotonic() + SECONDS
    os.set_blocking(leader, False)
    while not (folder / "ready").exists():
        assert time.monotonic() < end, "the command never came to train"
        try:
            os.read(leader, 65536)
        except BlockingIOError:
            time.sleep(0.005)
    os.close(leader)
    (folder / "go").touch()


def text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def leave_empty(results: object, files: list[Path], title: str) -> None:
    """Stand for the curves of a report: drawing them takes most of the time of a small command."""
    for file in files:
        file.touch()


if __name__ == "__main__":
    flatfed_reports.draw_curves = leave_empty
    jobs = json.loads(sys.argv[1])
    print(json.dumps([command(Path(job["folder"]), job) for job in jobs]))
