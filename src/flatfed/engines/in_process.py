"""The plain engine: clients one after another in this process. Slow, obvious, and the oracle for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor

from flatfed.core.algorithm import Algorithm
from flatfed.core.engine import Job, Reply
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.evaluation import test_chunks
from flatfed.core.messages import Message
from flatfed.core.metrics import Figure, Totals, add_up, figures
from flatfed.core.randomness import preserved_global_state
from flatfed.core.settings import Settings
from flatfed.core.task import Task
from flatfed.core.threads import single_thread
from flatfed.core.trainer import Trainer


class InProcessEngine:
    """Runs clients here, on one thread, leaving torch's global generator and thread count as they were."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, pulse: Callable[[], None] = lambda: None):
        self._trainer = Trainer(task, algorithm, settings)
        self._pulse = pulse

    def exchange(self, message: Message, jobs: Iterable[Job]) -> Iterator[Reply]:
        """Run the jobs in order."""
        for job in jobs:
            self._pulse()
            with single_thread(), preserved_global_state(), told(f"client {job.client}"):
                reply = self._trainer.run(message, job, self._pulse)
            yield reply

    def evaluate(self, w: Tensor, buffers: Mapping[str, Tensor]) -> dict[str, Figure]:
        """Return the test figures of a model."""
        trainer, chunks = self._trainer, test_chunks(self._trainer.task)
        with single_thread(), preserved_global_state(), told("the evaluation"):
            if chunks:
                buffers = trainer.calibrated(w, buffers)
            parts = [(chunk[0], trainer.measure(w, buffers, *chunk)) for chunk in chunks]
        return summary(trainer.task, parts)

    def close(self) -> None:
        """Nothing was started."""


@contextmanager
def told(what: str) -> Iterator[None]:
    """Let an error say what failed."""
    try:
        yield
    except FlatfedError:
        raise
    except Exception as error:
        raise EngineError(f"{what} failed: {type(error).__name__}: {error}") from error


def summary(task: Task, parts: Sequence[tuple[str, Totals]]) -> dict[str, Figure]:
    """Return the figures for the history from the sums over the test sets' batches, in their order."""
    found: dict[str, Figure] = {}
    for name in task.test_sets:
        totals = add_up(part for test, part in parts if test == name)
        found |= {f"{name}_{figure}": value for figure, value in figures(task.metrics, totals).items()}
    return found
