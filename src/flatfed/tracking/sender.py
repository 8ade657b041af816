"""The process that sends a run to one tracker: it reads the run directory, and tells its parent how that goes.

It is started by `flatfed.tracking.run_tracking`, which writes one line with what to send to its standard input, and a
second when the run has ended. What it tells goes to standard output, a line of JSON each.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from flatfed.tracking.feed import Feed
from flatfed.tracking.record import read_sent, sending
from flatfed.tracking.subject import Point, subject_of, without_secrets
from flatfed.tracking.tracker import Remote, Tracker, chosen

LOOK_SECONDS = 1.0
"""How often the history is looked at."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
LAST_TRIES = 2
"""How often a tracker that fails is tried once the run has ended; one that failed before is tried once."""
NICENESS = 5
"""The run goes first."""
ROWS = 100
"""At most this many rows go at once."""


class Orders:
    """What the parent says: that the run has ended, or nothing more, because it is gone."""

    def __init__(self, parent: int, ended: bool) -> None:
        self._parent, self.ended = parent, ended

    def is_orphaned(self) -> bool:
        """Say whether the parent is gone."""
        return os.getppid() != self._parent

    def wait(self, seconds: float) -> None:
        """Wait for the end of the run, for at most some seconds."""
        end = time.monotonic() + seconds
        while not self.ended:
            left = end - time.monotonic()
            # In short stretches: workers of the parent hold the pipe open when the parent is gone.
            if select.select([0], [], [], max(0.0, min(left, LOOK_SECONDS)))[0]:
                self.ended = True
            self.ended = self.ended or self.is_orphaned()
            if left <= 0:
                return


class News:
    """What is reported to the parent; nobody may be there to hear it."""

    def __init__(self) -> None:
        # Libraries print what they like: it must not come between these lines, nor onto the user's terminal.
        self._out = os.dup(1)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.set_blocking(self._out, False)
        self.last = time.monotonic()
        """When there was progress."""

    def tell(self, **news: Any) -> None:
        """Tell something."""
        if "error" not in news:
            self.last = time.monotonic()
        try:
            os.write(self._out, json.dumps(news).encode() + b"\n")
        except OSError:  # the parent is gone, or busy; it learns of it in the end
            return


class Watchdog(threading.Thread):
    """Ends the process when nobody is left to do so: its parent is gone, and the tracker hangs."""

    def __init__(self, orders: Orders, news: News, patience: float) -> None:
        super().__init__(daemon=True)
        self._orders, self._news, self._patience = orders, news, patience

    def run(self) -> None:
        """Look now and then."""
        while not self._orders.is_orphaned():
            time.sleep(LOOK_SECONDS)
        self._news.last = max(self._news.last, time.monotonic())
        while time.monotonic() - self._news.last < self._patience:
            time.sleep(LOOK_SECONDS)
        # With all that the tracker's library has started: the session is this process's own.
        os.killpg(0, signal.SIGKILL)


class Sending:
    """Sends one directory: what is new, again and again until it has ended, then what is left."""

    def __init__(self, tracker: Tracker, path: Path, orders: Orders, news: News, follows: bool) -> None:
        self.tracker, self.path, self.orders, self.news, self.follows = tracker, path, orders, news, follows
        self.sent = read_sent(path, tracker)
        self.subject = subject_of(path)
        if self.sent.began is None:
            self.sent.began = self.subject.began
        self.subject = replace(self.subject, began=self.sent.began)
        self.feed = Feed(self.subject)
        self.waiting: list[Point] = []
        self.remote: Remote | None = None

    def work(self) -> bool:
        """Send until the run has ended and all of it is there; say whether it is."""
        failures = 0
        while True:
            # Before the look: what comes between the two is then seen by the next look.
            is_last = self.orders.ended
            try:
                self._send(is_last)
            except Exception as error:  # libraries, servers and disks fail in any way
                self._drop()
                self.news.tell(error=_words(error))
                failures += 1
                if is_last and failures >= LAST_TRIES:
                    return False
                self._pause(FIRST_PAUSE * 2 ** (failures - 1))
            else:
                failures = 0
                if is_last:
                    return True
                self.orders.wait(LOOK_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Wait before the next try: the longer, the more have failed; the end of the run makes it short."""
        if self.orders.ended:
            time.sleep(FIRST_PAUSE)
        else:
            self.orders.wait(min(seconds, LONGEST_PAUSE))

    def _drop(self) -> None:
        """Let go of a connection that failed."""
        remote, self.remote = self.remote, None
        if remote is not None:
            try:
                remote.close()
            except Exception:  # it has failed already
                return

    def _send(self, is_last: bool) -> None:
        """Send what is new; at last also measurements, files, and how it ended."""
        if self.remote is None:
            self.remote = self._begun()
        while self._has_rows():
            self._send_rows(self.remote, self.waiting[:ROWS])
        if is_last:
            self._send_rest(self.remote)
            self.remote.close()
            self.remote = None

    def _has_rows(self) -> bool:
        """Read some rows, and no more than go at once: a tracker may fail for days."""
        self.waiting += islice(self.feed.points(), ROWS - len(self.waiting))
        return bool(self.waiting)

    def _begun(self) -> Remote:
        """Begin the run at the tracker, or take it up."""
        if self.sent.remote is None:
            # Also where it never begins: then this says where to send the run afterwards.
            self.sent.write()
        group = self.subject.group
        if group is not None and self.subject.group_id is None:
            self.subject = replace(self.subject, group_id=group_id(self.tracker, group))
        subject = self.subject
        if subject.is_group:
            subject = replace(subject, group_id=group_id(self.tracker, subject.path))
        remote = self.tracker.begin(subject, self.sent.remote)
        if remote.id != self.sent.remote:
            self.sent.remote = remote.id
            self._note()
        # What was sent just before a failure may have arrived.
        self.sent.rounds = max(self.sent.rounds, remote.reached())
        return remote

    def _send_rows(self, remote: Remote, points: Sequence[Point]) -> None:
        new = [point for point in points if point.step > self.sent.rounds]
        if new:
            remote.points(new)
            self.sent.rounds = new[-1].step
        # Now, and not after the record is written: what was sent must not be sent again.
        del self.waiting[: len(points)]
        if new:
            self._note()

    def _send_rest(self, remote: Remote) -> None:
        for name, point in self.feed.measured():
            if name not in self.sent.measured:
                remote.measurement(point)
                self.sent.measured.append(name)
                self._note()
        for path, name, content in self.feed.files():
            if self.sent.files.get(name) != content:
                remote.file(path, name)
                self.sent.files[name] = content
                self._note()
        status, reason = self.feed.status(self.follows)
        if status != "running":  # elsewhere, by a process that does not send it
            remote.end(status, reason)
        self.sent.status = status
        self._note()

    def _note(self) -> None:
        """Put on the disk how far it is, and tell."""
        self.sent.write()
        self.news.tell(rounds=self.sent.rounds)


def group_id(tracker: Tracker, folder: Path) -> str:
    """Return what a tracker calls a comparison or a study, which the first of its runs begins."""
    name = f"{tracker.id}-group"
    with sending(folder, name):
        sent = read_sent(folder, tracker, name)
        if sent.remote is None:
            sent.remote = tracker.begin_group(subject_of(folder))
            sent.write()
        return sent.remote


def _words(error: Exception) -> str:
    """Return an error in one line, without passwords."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return without_secrets(text)[:300]


def main() -> None:
    """Send what the first line of standard input says."""
    news = News()
    request = json.loads(_first_line())
    os.nice(NICENESS)
    sys.path += [entry for entry in request["sys_path"] if entry not in sys.path]
    importlib.import_module(request["module"])
    [tracker] = chosen(request["tracker"])
    orders = Orders(request["parent"], ended=not request["follows"])
    Watchdog(orders, news, tracker.patience).start()
    complete = [_send_one(tracker, Path(path), orders, news, request["follows"]) for path in request["paths"]]
    news.tell(done=all(complete))
    # Not through the usual exit: a library's threads may wait for a server there.
    os._exit(0)


def _first_line() -> bytes:
    """Return the first line of standard input, and read nothing of the next."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            raise SystemExit(1)
        line += piece
    return line


def _send_one(tracker: Tracker, path: Path, orders: Orders, news: News, follows: bool) -> bool:
    """Send one directory, and say whether all of it is there."""
    try:
        with sending(path, tracker.id):
            work = Sending(tracker, path, orders, news, follows)
            is_complete = work.work()
    except Exception as error:
        news.tell(error=_words(error))
        return False
    news.tell(path=str(path), complete=is_complete, remote=work.sent.remote)
    return is_complete
