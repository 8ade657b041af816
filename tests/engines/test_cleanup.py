"""Nothing is left behind: no process and no shared memory, however an engine ends."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import flatfed as ff
from engines.bench import (
    CASES,
    alive,
    deadly_loss,
    eventually,
    local_loss,
    nameless_loss,
    shared_directories,
    tensors_task,
)
from flatfed.engines.processes.pool import ProcessEngine

TESTS = Path(__file__).parents[1]

REPORT = """
import json, multiprocessing, re, sys, threading
import flatfed as ff
from engines.bench import CASES, digits
from flatfed.engines.processes.pool import ProcessEngine

def report():
    pids = [child.pid for child in multiprocessing.active_children()]
    with open("/proc/self/maps") as maps:
        directories = sorted(set(re.findall(r"/dev/shm/flatfed-[^/\\n]+", maps.read())))
    print(json.dumps([pids, directories]), flush=True)
"""

BUSY = """
ff.train(digits(), ff.make("fedsmoo"), rounds=10**6, sampling=5, lr=0.05, evaluate_last=1, workers=2,
         on_round=lambda row: report() if row["round"] == 1 else None)
"""

HUNG = """
import ctypes, os, time
from pathlib import Path
from torch.nn import functional
from engines.bench import is_worker, tensors_task

def hang(outputs, targets):
    if is_worker():
        Path(f"hung-{os.getpid()}").touch()
        if targets[0] == 0:
            time.sleep(10**6)
        # Code that never returns and lets no other thread run: a lock that is taken twice.
        library, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        library.pthread_mutex_lock(lock)
        library.pthread_mutex_lock(lock)
    return functional.cross_entropy(outputs, targets)

def tell():
    while len(list(Path().glob("hung-*"))) < 2:
        time.sleep(0.005)
    report()

threading.Thread(target=tell, daemon=True).start()
ff.train(tensors_task(hang, clients=2), ff.make("fedavg"), rounds=1, sampling=2, lr=0.1, workers=2, vectorised=False)
"""

IDLE = """
if __name__ == "__main__":
    plan = CASES["fedsmoo"].plan()
    engine = ProcessEngine(plan.task, plan.algorithm, plan.settings, 2, start_method="spawn")
    next(plan.federation(engine).rounds())
    report()
    threading.Event().wait()
"""


def mapped_directories() -> list[Path]:
    maps = Path("/proc/self/maps").read_text()
    return [Path(found) for found in sorted(set(re.findall(r"/dev/shm/flatfed-[^/\n]+", maps)))]


@contextmanager
def process(body: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a script in a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(REPORT + body)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    "body",
    [pytest.param(BUSY, id="busy, forked"), pytest.param(IDLE, id="idle, spawned"), pytest.param(HUNG, id="hung")],
)
def test_workers_of_a_killed_parent_end_and_take_the_shared_memory_with_them(body: str, tmp_path: Path) -> None:
    with process(body, tmp_path) as child:
        assert child.stdout is not None
        pids, directories = json.loads(child.stdout.readline())
        assert len(pids) == 2
        assert all(map(alive, pids))
        assert len(directories) == 1
        assert Path(directories[0]).is_dir()
        child.send_signal(signal.SIGKILL)
        child.wait()
        for pid in pids:
            eventually(lambda pid=pid: not alive(pid), f"the end of worker {pid}")
        eventually(lambda: not Path(directories[0]).exists(), f"the removal of {directories[0]}")


@pytest.fixture
def engine() -> Iterator[ProcessEngine]:
    plan = CASES["fedsmoo"].plan()
    engine = ProcessEngine(plan.task, plan.algorithm, plan.settings, workers=2)
    next(plan.federation(engine).rounds())
    yield engine
    engine.close()


def test_close_ends_the_workers_and_removes_the_shared_memory(engine: ProcessEngine) -> None:
    pids, directories = engine.pids, mapped_directories()
    assert all(map(alive, pids))
    assert any(directory.is_dir() for directory in directories)
    engine.close()
    assert not any(map(alive, pids))
    assert not any(directory.exists() for directory in directories)
    engine.close()  # once more is no error


def test_close_after_a_worker_has_died_leaves_nothing_either(engine: ProcessEngine) -> None:
    pids, directories = engine.pids, mapped_directories()
    os.kill(pids[0], signal.SIGKILL)
    eventually(lambda: not alive(pids[0]), "the end of the first worker")
    engine.close()
    assert not any(map(alive, pids))
    assert not any(directory.exists() for directory in directories)


def test_an_engine_that_is_forgotten_cleans_up_by_itself() -> None:
    plan = CASES["fedsmoo"].plan()
    engine = ProcessEngine(plan.task, plan.algorithm, plan.settings, workers=2)
    next(plan.federation(engine).rounds())
    pids, directories = engine.pids, mapped_directories()
    assert any(directory.is_dir() for directory in directories)
    del engine
    gc.collect()
    assert not any(map(alive, pids))
    assert not any(directory.exists() for directory in directories)


def test_a_run_that_fails_leaves_nothing() -> None:
    children = set(children_of(os.getpid()))
    with pytest.raises(ff.EngineError):
        ff.train(tensors_task(deadly_loss), ff.make("fedavg"), rounds=1, sampling=4, lr=0.1, workers=2)
    assert set(children_of(os.getpid())) <= children
    assert not any(directory.exists() for directory in mapped_directories())


def children_of(pid: int) -> list[int]:
    """Return the living children of a process, from the process table."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("loss", [local_loss(), nameless_loss], ids=["local", "nameless"])
def test_a_task_that_cannot_be_sent_to_a_spawned_worker_is_refused_with_advice(loss: Any, tmp_path: Path) -> None:
    task = tensors_task(loss)
    plan = CASES["fedsmoo"].plan()
    children, before = set(children_of(os.getpid())), shared_directories()
    with pytest.raises(ff.EngineError, match="workers=0") as caught:
        ProcessEngine(task, plan.algorithm, plan.settings, workers=2, start_method="spawn")
    assert "top level of a module" in str(caught.value)
    del caught
    gc.collect()
    trackers = {pid for pid in children_of(os.getpid()) if b"resource_tracker" in command_line(pid)}
    assert set(children_of(os.getpid())) <= children | trackers
    left = shared_directories() - before  # another process may have made some meanwhile: these vanish too
    eventually(lambda: not any(directory.exists() for directory in left), f"the removal of {left}")


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
