"""A process for each run: forked, so that what is loaded is shared; one that takes its process down is one failure."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.machine import STOP_SIGNALS, hear_end_of_parent

News = dict[str, Any]
"""What a child says, ready for JSON."""
Tell = Callable[[News], None]
Work = Callable[[Tell], None]

DONE, INTERRUPTED, FAILED = 0, 130, 1
ERROR = "error"
WAIT_SECONDS = 0.05


@dataclass(eq=False)
class Child:
    """A process that works on something, and says how far it is."""

    pid: int
    incoming: int
    """Where to read what it says."""
    latest: News = field(default_factory=dict)
    """What it said last."""
    error: str = ""
    trace: str = ""
    _rest: bytes = b""
    _code: int | None = None

    def listen(self) -> list[News]:
        """Take in what it says, and return what is new."""
        heard: list[News] = []
        while data := self._read():
            *lines, self._rest = (self._rest + data).split(b"\n")
            heard += filter(None, map(self._taken, lines))
        return heard

    def _read(self) -> bytes:
        """Return what there is to read; nothing where it has said no more by now."""
        try:
            return os.read(self.incoming, 65536)
        except BlockingIOError:
            return b""

    def _taken(self, line: bytes) -> News | None:
        news: News = json.loads(line)
        if ERROR in news:
            self.error, self.trace = news[ERROR], news["trace"]
            return None
        self.latest = news
        return news

    def ended(self) -> int | None:
        """Return how it ended, as `os.waitstatus_to_exitcode` says it; None while it lives.

        What it said before that can still be heard: `close` comes after it.
        """
        if self._code is None:
            # Together: it can be asked only once, and its number may be another process's after that.
            with signals_held():
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def close(self) -> None:
        """Hear it no more; whoever is interrupted in the middle of this may do it again."""
        incoming, self.incoming = self.incoming, -1
        if incoming >= 0:
            os.close(incoming)

    def wait(self) -> None:
        """Wait until it has ended; what it still says is taken in, or it would wait for a listener."""
        while self.ended() is None:
            select.select([self.incoming], [], [], WAIT_SECONDS)
            self.listen()
        self.close()

    def stop(self) -> None:
        """Ask it to save and to end, where it has not ended."""
        if self.ended() is None:
            os.kill(self.pid, signal.SIGTERM)


@contextmanager
def signals_held() -> Iterator[None]:
    """Let signals that ask to stop wait until this is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(work: Work) -> Child:
    """Start a process that does some work."""
    incoming, outgoing = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent = os.getpid()
    with signals_held():
        # A signal between the fork and the first line of the child would be taken for one to this process.
        pid = os.fork()
        if pid == 0:
            _live(work, outgoing, parent)
    os.close(outgoing)
    os.set_blocking(incoming, False)
    return Child(pid, incoming)


def _live(work: Work, outgoing: int, parent: int) -> None:
    """Do the work in the child, and end it."""
    code = FAILED
    try:
        for number in STOP_SIGNALS:
            # Those that are not for this process alone reach whoever started it too, who asks with SIGTERM.
            signal.signal(number, signal.SIG_IGN)
        # What asks to stop before training listens for it is an interrupt too, and no sudden end.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        hear_end_of_parent(signal.SIGTERM)
        _print_elsewhere()
        if os.getppid() != parent:
            raise OrphanedError
        work(lambda news: _tell(news, outgoing, parent))
        code = DONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException as error:
        _write(outgoing, {ERROR: _worded(error), "trace": traceback.format_exc()})
    finally:
        # Not through the parent's own exit: its files and handlers are not this process's.
        os._exit(code)


def _print_elsewhere() -> None:
    """Let all that is printed go to standard error, past whatever the parent has there.

    What the user's code prints must not come between the lines of a table, and a bar's locks may be held for ever.
    """
    os.dup2(2, 1)
    sys.stdout = sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _worded(error: BaseException) -> str:
    """Return an error in a sentence."""
    if isinstance(error, FlatfedError):
        return str(error)
    return f"{type(error).__name__}: {error}"


class OrphanedError(KeyboardInterrupt):
    """Whoever started this process is gone: somebody else will go on with its run."""


def _tell(news: News, outgoing: int, parent: int) -> None:
    if os.getppid() != parent:
        raise OrphanedError
    _write(outgoing, news)


def _write(outgoing: int, news: News) -> None:
    left = json.dumps(news).encode() + b"\n"
    try:
        while left:  # a pipe may take less than all of it
            left = left[os.write(outgoing, left) :]
    except BrokenPipeError:
        raise OrphanedError from None
