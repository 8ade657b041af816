"""Real `flatfed` processes: started, looked at through /proc, waited for with a bound, and ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

POLL_SECONDS = 0.005
PATIENCE = 180.0
"""Seconds after which a wait gives up: a bound for a program that hangs, never a pace."""


class Hang(Exception):
    """Something was waited for that never happened."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Poll until a condition holds; after a bound, say what was waited for in vain."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Hang(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)


class Flatfed:
    """A `flatfed` command in a process group of its own, as a terminal would start it."""

    def __init__(self, arguments: list[str]) -> None:
        command = [sys.executable, "-m", "flatfed", *arguments]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_hear_signals,
        )
        assert self._child.stdout is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        self.pid = self._child.pid
        self.text = ""
        self.output_lost = False
        self.workers: set[int] = set()
        """Every worker that was seen."""
        self.directories: set[Path] = set()
        """Every directory of shared memory that was seen."""

    def runs(self) -> bool:
        """Say whether it still runs; what it wrote meanwhile is taken, so that it never waits for a reader."""
        ended = self._child.poll() is not None
        self._read()
        return not ended

    def _read(self) -> None:
        stream = self._child.stdout
        if stream is None or stream.closed:
            return
        self.text += (stream.read() or b"").decode(errors="replace")

    def lose_output(self) -> None:
        """Close the end of the pipe at which its output is read."""
        self._read()
        assert self._child.stdout is not None
        self._child.stdout.close()
        self.output_lost = True

    def look(self) -> list[int]:
        """Return its living workers, and take note of them and of its shared memory."""
        found = children_of(self.pid)
        self.workers.update(found)
        self.directories.update(shared_directories(self.pid))
        return found

    def send(self, number: int, whole_group: bool) -> None:
        """Send a signal to the group or to the main process."""
        if whole_group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for its end and that of its workers, and return its code."""
        wait_until(lambda: not self.runs(), f"the end of {self.pid}")
        wait_until(lambda: not any(map(alive, self.workers)), f"the end of the workers of {self.pid}")
        code: int = self._child.returncode
        return code

    def abandon(self) -> None:
        """End all that is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait(PATIENCE)
        if self._child.stdout is not None:
            self._child.stdout.close()


def _hear_signals() -> None:
    """Give signals their usual effect: a job in the background of a script ignores Ctrl-C, and so do its children."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGQUIT"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def children_of(pid: int) -> list[int]:
    """Return the living worker processes of a process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            is_tracker = b"resource_tracker" in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == pid and state not in "ZX" and not is_tracker:
            found.append(int(entry.name))
    return sorted(found)


def shared_directories(pid: int) -> set[Path]:
    """Return the directories of shared memory that a process has mapped."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return set()
    return {Path(found) for found in re.findall(r"/dev/shm/flatfed-[^/\n]+", maps)}


def resident_bytes(pid: int) -> int:
    """Return how much memory a process has; 0 where it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_descriptors(pid: int) -> int:
    """Return how many descriptors a process has open; 0 where it is gone."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
