"""Trackers beside a run: a process for each, which reads what the run writes. A run waits for none of them.

The process imports the tracker's library, connects, sends, fails and tries again by itself. The run only starts it,
looks now and then at what it tells, and at the end says that there will be no more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, cast

import flatfed
from flatfed.tracking.record import read_sent
from flatfed.tracking.tracker import Tracker

PROGRAM = "from flatfed.tracking.sender import main; main()"
STEP_SECONDS = 0.1
Say = Callable[[str], None]


class SenderProcess:
    """The process that sends some directories to one tracker, as its parent sees it."""

    def __init__(self, tracker: Tracker, paths: Sequence[Path], follows: bool) -> None:
        self.tracker, self.paths = tracker, paths
        self.errors: list[str] = []
        self.is_complete = self._is_over = False
        self.remotes: dict[str, str] = {}
        self._partial, self._heard = b"", time.monotonic()
        self._process = _started()
        self._order(json.dumps(_request(tracker, paths, follows)))

    def _order(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def hear(self) -> None:
        """Take note of what it has said; this never waits."""
        assert self._process.stdout is not None
        while not self._is_over:
            try:
                piece = os.read(self._process.stdout.fileno(), 65536)
            except OSError:  # there is nothing now
                return
            self._is_over = not piece
            *lines, self._partial = (self._partial + piece).split(b"\n")
            for line in lines:
                # A library may have printed something; no line of it may stop the run.
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    self._note(json.loads(line))

    def _note(self, news: dict[str, Any]) -> None:
        if "error" in news:
            self.errors.append(news["error"])
            return
        if news.get("complete", True):
            self._heard = time.monotonic()  # progress; to give up one of many directories is none
        if news.get("remote"):
            self.remotes[news["path"]] = news["remote"]
        if "done" in news:
            self.is_complete, self._is_over = news["done"], True

    def end(self) -> None:
        """Say that the run has ended."""
        self._heard = time.monotonic()
        self._order("end")

    def waits(self) -> bool:
        """Wait a moment for what it tells; say whether to go on waiting."""
        assert self._process.stdout is not None
        select.select([self._process.stdout], [], [], STEP_SECONDS)
        self.hear()
        return not self._is_over and time.monotonic() - self._heard < self.tracker.patience

    def stop(self) -> None:
        """Let nothing of it stay: it, and what its library has started."""
        with contextlib.suppress(OSError):  # also when it has said that it is done: nothing is left to lose
            os.killpg(self._process.pid, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()


def _started() -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C is for the run alone."""
    home = str(Path(flatfed.__file__).parents[1])
    paths = [home, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))},
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return process


def _request(tracker: Tracker, paths: Sequence[Path], follows: bool) -> dict[str, Any]:
    return {
        "tracker": tracker.to_dict(),
        "module": type(tracker).__module__,
        "sys_path": sys.path,
        "paths": [str(path.absolute()) for path in paths],
        "follows": follows,
        "parent": os.getpid(),
    }


class RunTracking:
    """The trackers of one run: begun with it, looked at after rounds, ended with it. Nothing here stops the run."""

    def __init__(self, trackers: Iterable[Tracker], tell: Callable[[str], bool] = lambda text: False) -> None:
        self._trackers, self._tell_user = tuple(trackers), tell
        self._processes: list[SenderProcess] = []
        self._warned: set[str] = set()
        self._path = Path()

    def begin(self, path: Path) -> None:
        """Start to send a run directory."""
        self._path = path
        for tracker in self._trackers:
            try:
                self._processes.append(SenderProcess(tracker, [path], follows=True))
            except OSError as error:  # no more processes, say
                self._warn(tracker.id, f"it cannot be started: {error.strerror}")

    def look(self) -> None:
        """Take note of what has gone wrong, and warn once for each tracker."""
        for process in self._processes:
            process.hear()
            if process.errors:
                self._warn(process.tracker.id, process.errors[0])

    def _warn(self, id: str, reason: str) -> None:
        if id not in self._warned:
            self._warned.add(id)
            warn(f"{self._path}: {id} takes nothing ({reason}); the run goes on, and it is tried again")

    def finish(self, is_asked_to_stop: Callable[[], bool] = lambda: False) -> None:
        """Have sent what is left, and say what could not be; a new wish to stop ends the waiting."""
        was_asked = is_asked_to_stop()
        try:
            for process in self._processes:
                process.end()
            for process in self._processes:
                while process.waits() and is_asked_to_stop() == was_asked:
                    self.look()
                self.look()
                self._tell(process)
        finally:
            for process in self._processes:
                process.stop()
            self._processes.clear()

    def _tell(self, process: SenderProcess) -> None:
        """Say how to send what is left."""
        if process.is_complete:
            return
        sentence = how_to_send(self._path, process.tracker)
        if not self._tell_user(sentence):
            warn(sentence)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.stop()


def how_to_send(path: Path, tracker: Tracker) -> str:
    """Return the sentence for a run that is not at its tracker, or not whole."""
    rounds = 0
    with contextlib.suppress(Exception):  # the record may be what could not be written
        rounds = read_sent(path, tracker).rounds
    command = f"flatfed track {shlex.quote(str(path))} --to {shlex.quote(spelled(tracker))}"
    return f"{path}: {rounds} rounds are at {tracker.id}, and not all is there; send the rest with: {command}"


def spelled(tracker: Tracker) -> str:
    """Return a tracker as it is written in a command: its id, and in brackets what is not as usual."""
    usual = {field.name: field.default for field in dataclasses.fields(cast(Any, tracker))} | {"id": tracker.id}
    changed = [f"{name}={value}" for name, value in tracker.place.items() if value != usual[name]]
    return f"{tracker.id}({','.join(changed)})" if changed else tracker.id


def warn(text: str) -> None:
    """Warn; also where warnings are errors, this must not stop a run."""
    try:
        warnings.warn(text, stacklevel=2)
    except Warning as warning:
        print(f"Warning: {warning}", file=sys.stderr)


def send(tracker: Tracker, paths: Sequence[Path], say: Say = warn) -> bool:
    """Send directories as they are, and return whether all of them are there."""
    if not paths:
        return True
    process = SenderProcess(tracker, paths, follows=False)
    try:
        while process.waits():
            pass
    finally:
        process.stop()
    for error in process.errors[:1]:
        say(f"{tracker.id} takes nothing: {error}")
    return process.is_complete
