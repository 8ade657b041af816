"""Signals without loss: training notes them and stops where no state is half-changed; elsewhere they end a command."""

from __future__ import annotations

import signal
import sys
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
    """Training was interrupted; `run` holds what was reached, and `str()` says how to go on.

    Attributes:
        number: the signal that asked for it; None where it was none.
    """

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run
        self.number: int | None = None


def returned(interrupted: RunInterrupted) -> Run:
    """Return the run that Ctrl-C stopped, with a word on how to go on.

    Any other signal is to end the program. So is one that came when the run had come to its end: its status does not
    tell of it.
    """
    if interrupted.number != signal.SIGINT or interrupted.run.status != "interrupted":
        raise interrupted
    from flatfed.core.method.engine import tell  # here, as it loads torch, and every command listens for signals

    if not tell(str(interrupted)):
        print(interrupted, file=sys.stderr)
    return interrupted.run


class _Listening:
    """While active, hears the signals that ask to stop; then the handlers of before are back."""

    def __init__(self) -> None:
        self.requested = False
        self.number: int | None = None
        self._when = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Python lets no other thread set handlers of signals.
            for number in filter(_may_be_taken, STOP_SIGNALS):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        outer = [_listener(handler) for handler in self._previous.values()]
        self._hand_over(outer)
        self._put_back()
        # Again: until the handlers of before were back, a signal was noted here.
        self._hand_over(outer)

    def _hand_over(self, outer: list[_Listening | None]) -> None:
        """Let those who listened before know of a signal."""
        for listener in outer:
            if listener is not None and self.requested:
                # One that comes a moment later is the same wish, and must not cut short how the command ends.
                listener.requested, listener._when = True, self._when

    def _put_back(self) -> None:
        """Set the handlers of before: all of them, also where one of them hears a signal meanwhile and raises."""
        try:
            while self._previous:
                number, handler = next(iter(self._previous.items()))
                signal.signal(number, handler)
                del self._previous[number]
        finally:
            if self._previous:
                self._put_back()

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
    """While active, a signal asks training to stop; one more, a second or later, stops it at once.

    A signal that nobody looked at is an interrupt when this ends: what comes after training must not go on either.
    """

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        super().__exit__(kind, value, trace)
        if self.requested and not isinstance(value, KeyboardInterrupt):
            raise KeyboardInterrupt(_interrupted(value)) from value

    def pulse(self) -> None:
        """Called by engines where it is safe to stop."""
        if self.requested:
            raise Interrupted("interrupted")

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_first():
            self.number = number
        elif self._insists(number):
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


def _interrupted(error: BaseException | None) -> str:
    """Return what is said of an interrupt, beside which there may be an error."""
    if error is None or isinstance(error, Interrupted):
        return "interrupted"
    return f"interrupted; before that: {error}"


def _listener(handler: Any) -> _Listening | None:
    """Return whose method a handler is, if it is one of these classes."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, _Listening) else None


def _may_be_taken(number: int) -> bool:
    """Say whether a signal is ours to handle."""
    handler = signal.getsignal(number)
    if handler is None:  # set by something other than Python, which alone could put it back
        return False
    return number in ALWAYS or _listener(handler) is not None or handler == signal.SIG_DFL
