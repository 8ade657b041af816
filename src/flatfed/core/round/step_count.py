"""How far the round is that is being played: its local steps, for whoever wants to hear of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HEAR_SECONDS = 0.2
"""Reports come no more often than this: a step may be shorter than what it takes to show it."""

OnSteps = Callable[[int, int], None]
"""Hears how many of the local steps of an exchange are done, and how many there are."""


class StepCount:
    """Counts the local steps of one exchange after the other; costs a step nothing but an addition."""

    def __init__(self, hear: OnSteps) -> None:
        self._hear, self._reported = hear, 0.0
        self._total = self._replied = self._taken = 0

    def begin(self, total: int) -> None:
        """Begin an exchange with this number of steps."""
        self._total, self._replied, self._taken = total, 0, 0

    def step(self) -> None:
        """Count one that is taken in this process."""
        self.taken(self._taken + 1)

    def taken(self, steps: int) -> None:
        """Note how many were taken in this exchange, also by clients that have not answered."""
        self._taken = steps
        self._report()

    def replied(self, steps: int) -> None:
        """Note that a client has answered that took this number of steps."""
        self._replied += steps
        self._report()

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported < HEAR_SECONDS:
            return
        self._reported = now
        # A worker that died has taken steps that are taken again.
        self._hear(min(max(self._taken, self._replied), self._total), self._total)


_count: ContextVar[StepCount | None] = ContextVar("steps", default=None)


@contextmanager
def hearing_steps(hear: OnSteps) -> Iterator[None]:
    """Let `hear` know how far the rounds are that are played meanwhile."""
    token = _count.set(StepCount(hear))
    try:
        yield
    finally:
        _count.reset(token)


@contextmanager
def unheard() -> Iterator[None]:
    """Let nobody hear of rounds that are only tried."""
    token = _count.set(None)
    try:
        yield
    finally:
        _count.reset(token)


def step_count() -> StepCount | None:
    """Return what counts, where somebody hears."""
    return _count.get()
