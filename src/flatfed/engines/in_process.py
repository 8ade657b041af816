"""The plain engine: clients one after another in this process. Slow, obvious, and the oracle for the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Held, Item, Job, Jobs, Reply, WorkFunction, together
from flatfed.core.method.messages import Message
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_other_generators, preserved_torch_generator
from flatfed.core.round.trainer import Trainer
from flatfed.core.round.vectorised import group_sizes
from flatfed.core.task.task import Task
from flatfed.machine import keep_freed_memory


class InProcessEngine:
    """Runs clients here, on one thread, leaving the global generators and the thread count as they were.

    Memory that a step frees stays with the process for the next one.
    """

    gaps = False

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Callable[[], None] = lambda: None):
        self._trainer = Trainer(task, algorithm, settings)
        self._pulse, self._held = pulse, Held[Message]()
        keep_freed_memory()

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Run the jobs in order, one at a time, or group by group where clients are vectorised."""
        # Once for all clients: putting NumPy's generator back takes as long as a small step.
        with preserved_other_generators():
            for group in grouped(jobs, self._trainer.settings):
                self._pulse()
                received = together(self._held.receive(group[0].round, group[0].exchange, message))
                with single_thread(), preserved_torch_generator(), named_errors(f"client {group[0].client}"):
                    replies = self._trainer.run_together(received, group, self._pulse)
                # Outside of the contexts: between two replies the caller has its own threads and torch's generator.
                yield from replies

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
