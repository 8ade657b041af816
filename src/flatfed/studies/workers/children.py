"""A process for each cell: forked, so that what is loaded is shared; one that takes its process down is one failure."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flatfed.core.errors import FlatfedError
from flatfed.machine import STOP_SIGNALS, hear_end_of_parent
from flatfed.studies.workers.leases import CellProgress

Tell = Callable[[CellProgress], None]
Work = Callable[[Tell], None]

DONE, INTERRUPTED, FAILED = 0, 130, 1


@dataclass(eq=False)
class Child:
    """A process that works on something, and says how far it is."""

    pid: int
    incoming: int
    """Where to read what it says."""
    progress: CellProgress = field(default_factory=CellProgress)
    error: str = ""
    trace: str = ""
    _rest: bytes = b""

    def listen(self) -> None:
        """Take in what it says."""
        while True:
            try:
                data = os.read(self.incoming, 65536)
            except BlockingIOError:
                return
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, news: dict[str, Any]) -> None:
        if "error" in news:
            self.error, self.trace = news["error"], news["trace"]
        else:
            self.progress = CellProgress(**news)

    def ended(self) -> int | None:
        """Return how it ended, as `os.waitstatus_to_exitcode` says it; None while it lives."""
        self.listen()
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.listen()
        os.close(self.incoming)
        return os.waitstatus_to_exitcode(status)

    def wait(self) -> None:
        """Wait until it has ended; what it says any more is not heard."""
        os.waitpid(self.pid, 0)
        os.close(self.incoming)

    def stop(self) -> None:
        """Ask it to save and to end."""
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
        work(lambda progress: _tell(progress, outgoing, parent))
        code = DONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException as error:
        _write(outgoing, {"error": _worded(error), "trace": traceback.format_exc()})
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
    """Whoever started this process is gone: somebody else will go on with its cell."""


def _tell(progress: CellProgress, outgoing: int, parent: int) -> None:
    if os.getppid() != parent:
        raise OrphanedError
    _write(outgoing, progress.__dict__)


def _write(outgoing: int, news: dict[str, Any]) -> None:
    try:
        os.write(outgoing, json.dumps(news).encode() + b"\n")
    except BrokenPipeError:
        raise OrphanedError from None
