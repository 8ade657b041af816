"""Started as `python -m runs.killer JOBS`: kills runs at chosen moments and resumes them.

Nothing is trained in this process. Each run, and each resumption, has a process of its own, forked after the
imports; so each is as fresh as one that was just started, without the seconds that importing torch takes.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.random  # noqa: F401  (imported here, once, and not in each fork)

import flatfed as ff
import flatfed.experiments.running.resume
import flatfed.experiments.running.train
from runs import bench

CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "pwrite", "ftruncate")
"""The system calls by which a checkpoint comes to be; a process can die before each of them."""

ARMED_AFTER = 1
"""The round after which the dangers begin: the first two checkpoints are there."""


endings: dict[str, int] = {}
"""How the training of each job ended."""


class Trap:
    """Counts system calls from a moment on and kills the process before the n-th."""

    def __init__(self, fatal: int | None, at_first: Callable[[], None] = lambda: None) -> None:
        self.fatal, self.at_first, self.armed = fatal, at_first, False
        self.seen: list[str] = []
        for name in CALLS:
            setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.armed:
                if self.fatal == len(self.seen):
                    die()
                if not self.seen:
                    self.at_first()
                self.seen.append(name)
            return original(*args, **kwargs)

        return call


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def limit_files(size: int) -> None:
    """Let the kernel end the process in the middle of the write that makes a file longer than this."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def train(path: Path, job: dict[str, Any]) -> None:
    """Train, and die where the job says."""
    kind, n = job["kind"], job["n"]
    trap = Trap(n if kind in ("calls", "first") else None, lambda: limit_files(n) if kind == "bytes" else None)
    trap.armed = kind in ("first", "count first")

    def on_round(row: dict[str, Any]) -> None:
        if kind == "count first":
            finish(path, {"calls": trap.seen})
        if row["round"] == ARMED_AFTER:
            trap.armed = True
            if kind == "history":
                limit_files((path / "history.jsonl").stat().st_size + n)
            if kind == "steps":
                bench.steps_left = n
        if row["round"] == ARMED_AFTER + 1 and kind == "between":
            die()
        if row["round"] == ARMED_AFTER + 2 and kind == "count":
            finish(path, {"calls": trap.seen})

    bench.small_run(path, on_round=on_round, workers=job.get("workers", 0))


def resume(path: Path, job: dict[str, Any]) -> None:
    """Resume; a job may kill this one as well."""
    trap = Trap(job.get("again"))
    trap.armed = True
    if "again_bytes" in job:
        limit_files(job["again_bytes"])
    try:
        run = ff.resume(path)
    except ff.FlatfedError as error:
        finish(path, {"error": f"{type(error).__name__}: {error}"})
    finish(path, {"bits": bench.digest(run), "calls": trap.seen, "litter": bench.litter(path)})


def finish(path: Path, report: dict[str, Any]) -> None:
    report_file(path).write_text(json.dumps(report))
    os._exit(0)


def report_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def forked(work: Callable[[Path, dict[str, Any]], None], path: Path, job: dict[str, Any]) -> int:
    """Do the work in a process of its own and return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work(path, job)
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def trained(path: Path, job: dict[str, Any]) -> int:
    """Train to death and return how it ended; or take what another job left, where this one is to be like it."""
    like = job.get("like")
    if like is None:
        endings[path.name] = forked(train, path, job)
        return endings[path.name]
    shutil.copytree(path.with_name(like), path)
    return endings[like]


def play(path: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Train to death, resume (twice where the first resumption dies too), and say what came of it."""
    ended = trained(path, job)
    if job["kind"] in ("count", "count first") or not job.get("resume", True):
        return {"ended": ended, **(json.loads(report_file(path).read_text()) if ended == 0 else {})}
    report: dict[str, Any] = {"ended": ended, "was_run": (path / "config.json").exists()}
    if "again" in job or "again_bytes" in job:
        report["ended_again"] = forked(resume, path, job)
        job = {name: value for name, value in job.items() if not name.startswith("again")}
    report["resumed"] = forked(resume, path, job)
    return report | (json.loads(report_file(path).read_text()) if report["resumed"] == 0 else {})


if __name__ == "__main__":
    file = Path(sys.argv[1])
    jobs = json.loads(file.read_text())
    gc.freeze()
    print(json.dumps([play(file.parent / job["name"], job) for job in jobs]))
