"""The plain engine: clients one after another in this process. Slow, obvious, and the oracle for the others."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Held, Item, Job, Jobs, Reply, WorkFunction, no_reply, together
from flatfed.core.method.messages import Message
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_other_generators, preserved_torch_generator
from flatfed.core.round.trainer import Trainer
from flatfed.core.round.vectorised import group_sizes
from flatfed.core.task.task import Task
from flatfed.engines.time_limit import Deadline, OutOfTime, refuse_without_alarm, within
from flatfed.machine import keep_freed_memory


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
        # Once for all clients: putting NumPy's generator back takes as long as a small step.
        with preserved_other_generators():
            for group in grouped(jobs, self._settings):
                self._pulse()
                if deadline.is_over:
                    return  # who has not been asked has not answered
                received = together(self._held.receive(group[0].round, group[0].exchange, message))
                with single_thread(), preserved_torch_generator(), named_errors(f"client {group[0].client}"):
                    replies = self._replies(received, group, deadline)
                # Outside of the contexts: between two replies the caller has its own threads and torch's generator.
                yield from replies

    def _replies(self, received: Message, group: list[Job], deadline: Deadline) -> list[Reply]:
        """Run clients together; of a group that is out of time each alone: only those that hang are given up."""
        each = self._settings.client_timeout
        seconds = deadline.at_most(None if each is None else each * len(group))
        if seconds is None:
            return self._trainer.run_together(received, group, self._pulse)
        replies = self._in_time(received, group, seconds)
        if replies is not None:
            return replies
        if deadline.is_over:
            return [no_reply(job, deadline.seconds) for job in group]
        assert each is not None
        if len(group) == 1:
            return [no_reply(group[0], each)]
        return [reply for job in group for reply in self._replies(received, [job], deadline)]

    def _in_time(self, received: Message, group: list[Job], seconds: float) -> list[Reply] | None:
        """Run clients within this time; None where that was not enough."""
        # On copies: for a client that is given up, or run again, nothing has happened.
        copies = [replace(job, kept=job.kept.copy()) for job in group]
        run = functools.partial(self._trainer.run_together, received, copies, self._pulse)
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
