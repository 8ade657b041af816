"""Signals without loss: training notes them and stops where no state is half-changed; elsewhere they end a command."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from flatfed.core.errors import Interrupted
from flatfed.machine import STOP_SIGNALS

if TYPE_CHECKING:
    from flatfed.experiments.running.run import Run

ALWAYS = (signal.SIGINT, signal.SIGTERM)
"""The others are left alone where somebody has decided about them: `nohup`, or a handler of the caller's own."""
INSISTING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""What a user sends again; a terminal that is closed, or a scheduler, may send the others more than once by itself."""
# One press of the key may arrive as several signals; only a later one means that the user insists.
PATIENCE_SECONDS = 1.0

Handler = Callable[[int, FrameType | None], None]


class RunInterrupted(KeyboardInterrupt):
    """Training was interrupted; `run` holds what was reached, and `str()` says how to go on."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class _Listening:
    """While active, hears the signals that ask to stop; then the handlers of before are back."""

    def __init__(self) -> None:
        self.requested = False
        self._when = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Python lets no other thread set handlers of signals.
            for number in filter(_may_be_taken, STOP_SIGNALS):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, _Listening) and isinstance(value, KeyboardInterrupt):
                # One that comes a moment later is the same wish, and must not cut short how the command ends.
                outer.requested, outer._when = self.requested, self._when

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal."""
        raise NotImplementedError

    def _is_first(self) -> bool:
        """Say whether no signal came before, and take note of it."""
        if self.requested:
            return False
        self.requested, self._when = True, time.monotonic()
        return True

    def _insists(self, number: int) -> bool:
        """Say whether a further signal means that the user will not wait."""
        return number in INSISTING and time.monotonic() - self._when > PATIENCE_SECONDS


class Interruption(_Listening):
    """While active, a signal asks training to stop; one more, a second or later, stops it at once."""

    def pulse(self) -> None:
        """Called by engines where it is safe to stop."""
        if self.requested:
            raise Interrupted("interrupted")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._is_first() and self._insists(number):
            raise KeyboardInterrupt


class CommandInterruption(_Listening):
    """While active, a signal ends the command where it is, as Ctrl-C does; training has its own way meanwhile.

    Attributes:
        name: the first signal that came, `SIGTERM` say.
    """

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self._done = False

    def done(self) -> None:
        """Note that the command has ended: a signal from now on has nothing to stop."""
        self._done = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._done:
            return
        if self._is_first():
            self.name = signal.Signals(number).name
            raise KeyboardInterrupt(f"interrupted ({self.name})")
        if self._insists(number):
            raise KeyboardInterrupt("interrupted")


def _may_be_taken(number: int) -> bool:
    """Say whether a signal is ours to handle."""
    handler = signal.getsignal(number)
    if handler is None:  # set by something other than Python, which alone could put it back
        return False
    is_ours = isinstance(getattr(handler, "__self__", None), _Listening)
    return number in ALWAYS or is_ours or handler == signal.SIG_DFL
