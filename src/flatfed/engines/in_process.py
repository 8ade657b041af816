"""The plain engine: clients one after another in this process. Slow, obvious, and the oracle for the others.

A bound on the time of a client is an alarm that ends Python code wherever it is.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import PARAMETER, ConfigError, EngineError, FlatfedError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Held, Item, Job, Jobs, Reply, WorkFunction, no_reply, together
from flatfed.core.method.messages import Message
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_other_generators, preserved_torch_generator
from flatfed.core.round.step_count import step_count
from flatfed.core.round.trainer import Pulse, Trainer
from flatfed.core.round.vectorised import group_sizes
from flatfed.core.task.task import Task
from flatfed.machine import keep_freed_memory

T = TypeVar("T")

AGAIN_SECONDS = 0.5
"""The alarm rings again after this time: Python drops an error that is raised in some places, such as `__del__`."""

SOON = 1e-6
"""A timer of 0 seconds would never ring."""

LONGEST = 1e8
"""Three years: a system refuses a timer of many more."""


def _counting(pulse: Pulse) -> Pulse:
    """Return a pulse that also counts the steps, where somebody hears of them: it is called at each."""
    steps = step_count()
    if steps is None:
        return pulse

    def count() -> None:
        steps.step()
        pulse()

    return count


class InProcessEngine:
    """Runs clients here, on one thread, leaving the global generators and the thread count as they were.

    Memory that a step frees stays with the process for the next one.
    """

    gaps = False

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Callable[[], None] = lambda: None):
        self._make_trainer = functools.partial(Trainer, task, algorithm, settings)
        self._trainer = self._make_trainer()
        self._settings, self._pulse, self._held = settings, pulse, Held[Message]()
        keep_freed_memory()

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Run the jobs in order, one at a time, or group by group where clients are vectorised."""
        refuse_without_alarm(self._settings)
        deadline = Deadline(self._settings.exchange_timeout)
        pulse = _counting(self._pulse)
        # Once for all clients: putting NumPy's generator back takes as long as a small step.
        with preserved_other_generators():
            for group in grouped(jobs, self._settings):
                self._pulse()
                if deadline.is_over:
                    return  # who has not been asked has not answered
                received = together(self._held.receive(group[0].round, group[0].exchange, message))
                with single_thread(), preserved_torch_generator(), named_errors(f"client {group[0].client}"):
                    replies = self._replies(received, group, deadline, pulse)
                # Outside of the contexts: between two replies the caller has its own threads and torch's generator.
                yield from replies

    def _replies(self, received: Message, group: list[Job], deadline: Deadline, pulse: Pulse) -> list[Reply]:
        """Run clients together; of a group that is out of time each alone: only those that hang are given up."""
        each = self._settings.client_timeout
        seconds = deadline.at_most(None if each is None else each * len(group))
        if seconds is None:
            return self._trainer.run_together(received, group, pulse)
        replies = self._in_time(received, group, seconds, pulse)
        if replies is not None:
            return replies
        if deadline.is_over:
            return [no_reply(job, deadline.seconds) for job in group]
        assert each is not None
        if len(group) == 1:
            return [no_reply(group[0], each)]
        return [reply for job in group for reply in self._replies(received, [job], deadline, pulse)]

    def _in_time(self, received: Message, group: list[Job], seconds: float, pulse: Pulse) -> list[Reply] | None:
        """Run clients within this time; None where that was not enough."""
        # On copies: for a client that is given up, or run again, nothing has happened.
        copies = [replace(job, kept=job.kept.copy()) for job in group]
        run = functools.partial(self._trainer.run_together, received, copies, pulse)
        try:
            return within(seconds, run)
        except OutOfTime:
            # The alarm may have struck anywhere in it.
            self._trainer = self._make_trainer()
            return None

    def compute(
        self, piece: WorkFunction, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Do a piece of work for one item after the other."""
        with preserved_other_generators():
            for number, item in enumerate(items):
                with single_thread(), preserved_torch_generator(), named_errors(label(piece, item)):
                    result = dict(piece(self._trainer.evaluator, given, *item))
                yield number, result

    def close(self) -> None:
        """Nothing was started."""


def grouped(jobs: Jobs, settings: Settings) -> Iterator[list[Job]]:
    """Yield the jobs that are done together: one at a time, or a vectorised group."""
    left = iter(jobs)
    for size in _sizes(len(jobs), settings):
        yield list(itertools.islice(left, size))


def _sizes(count: int, settings: Settings) -> list[int]:
    return group_sizes(count) if settings.vectorised else [1] * count


@contextmanager
def named_errors(what: str) -> Iterator[None]:
    """Let an error say what failed."""
    try:
        yield
    except FlatfedError:
        raise
    except Exception as error:
        raise EngineError(f"{what} failed: {type(error).__name__}: {error}") from error


def label(piece: WorkFunction, item: Item) -> str:
    """Return how errors call a piece of work."""
    return f"{getattr(piece, '__name__', 'computation')} of {', '.join(str(word) for word in item)}"


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
