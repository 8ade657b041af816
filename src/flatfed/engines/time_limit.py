"""A bound on the time of work in this process: an alarm that ends Python code wherever it is."""

from __future__ import annotations

import math
import random
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import numpy as np
import torch

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError

T = TypeVar("T")

AGAIN_SECONDS = 0.5
"""The alarm rings again after this time: Python drops an error that is raised in some places, such as `__del__`."""

SOON = 1e-6
"""A timer of 0 seconds would never ring."""

LONGEST = 1e8
"""Three years: a system refuses a timer of many more."""


class OutOfTime(BaseException):
    """The time is over. No `Exception`: code that catches all of those, to try again, must not catch this one."""


def refuse_without_alarm(settings: Settings) -> None:
    """Refuse a bound on clients of this process where no alarm can ring."""
    bounds = {"client_timeout": settings.client_timeout, "exchange_timeout": settings.exchange_timeout}
    given = [name for name, seconds in bounds.items() if seconds is not None]
    if not given:
        return
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        raise ConfigError(
            f"{PARAMETER} needs worker processes here, as clients of this process can only be stopped in the main "
            "thread; use workers=1 or more",
            parameter=given[0],
        )


class Deadline:
    """The end of the time for all clients of an exchange; none where `seconds` is None."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self.seconds = math.inf if seconds is None else seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self._end is not None and time.monotonic() >= self._end

    def at_most(self, seconds: float | None) -> float | None:
        """Return this time, cut where the deadline comes before; None where there is no bound."""
        if self._end is None:
            return seconds
        left = max(self._end - time.monotonic(), SOON)
        return left if seconds is None else min(seconds, left)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do some work and return its result, or raise `OutOfTime` where it is; signals and generators are put back."""
    alarm = _Alarm()
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002  (to put it back)
    is_grad_enabled = torch.is_grad_enabled()
    # Plain statements, as an alarm may ring at the call of any function, `__exit__` of a `with` included.
    try:
        alarm.set(seconds)
        return work()
    except (OutOfTime, Exception):
        alarm.is_heard = False
        # Code that was stopped may turn the alarm into an error of its own.
        if not alarm.has_rung:
            raise
        # What puts these back inside the work may have been cut short.
        np.random.set_state(numpy_state)  # noqa: NPY002  (put back)
        random.setstate(python_state)
        torch.set_grad_enabled(is_grad_enabled)
        raise OutOfTime from None
    finally:
        alarm.is_heard = False
        alarm.put_back()


class _Alarm:
    """The timer of this process while it is ours; the user's own handler and timer wait meanwhile."""

    def __init__(self) -> None:
        self.is_heard, self.has_rung = False, False
        self._since = time.monotonic()
        self._timer = signal.setitimer(signal.ITIMER_REAL, 0)
        self._handler = signal.signal(signal.SIGALRM, self._ring)

    def set(self, seconds: float) -> None:
        """Let it ring after this many seconds, and again until the work has ended."""
        self.is_heard = True
        signal.setitimer(signal.ITIMER_REAL, min(seconds, LONGEST), AGAIN_SECONDS)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.is_heard:
            self.has_rung = True
            raise OutOfTime

    def put_back(self) -> None:
        """Give handler and timer back; a timer that has run out meanwhile rings now."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._handler is not None:  # None: it was not set from Python, which cannot put it back
            signal.signal(signal.SIGALRM, self._handler)
        left, interval = self._timer
        if left:
            waited = time.monotonic() - self._since
            signal.setitimer(signal.ITIMER_REAL, max(left - waited, SOON), interval)
