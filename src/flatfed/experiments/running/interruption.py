"""Ctrl-C without loss: the signal is noted, and training stops where no state is half-changed."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import Interrupted

if TYPE_CHECKING:
    from flatfed.experiments.running.run import Run

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# One press of the key may arrive as several signals; only a later one means that the user insists.
PATIENCE_SECONDS = 1.0


class RunInterrupted(KeyboardInterrupt):
    """Training was interrupted; `run` holds what was reached, and `str()` says how to go on."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class Interruption:
    """While active, an interrupt asks training to stop; one more, a second or later, stops it at once."""

    def __init__(self) -> None:
        self.requested = False
        self._when = 0.0
        self._previous: dict[int, Any] = {}

    def pulse(self) -> None:
        """Called by engines where it is safe to stop."""
        if self.requested:
            raise Interrupted("interrupted")

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            # Python lets no other thread set handlers of signals.
            self._previous = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and time.monotonic() - self._when > PATIENCE_SECONDS:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested, self._when = True, time.monotonic()
