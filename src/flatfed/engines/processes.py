"""The process engine: persistent workers, one thread each, vectors through shared memory.

A worker that dies is replaced and its client is run again; a client that takes its worker down repeatedly
ends the run with its id. A client that takes longer than `client_timeout` is given up: its worker is killed
and replaced, and the others go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Held, Item, Job, Jobs, Reply, WorkFunction
from flatfed.core.method.messages import Message
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.core.task.task import Task
from flatfed.engines.arena import Outbox
from flatfed.engines.in_process import grouped
from flatfed.engines.work import Computation, TrainWork
from flatfed.engines.worker import Sent
from flatfed.engines.worker_pool import Spread, WorkerPool, default_start_method


class ProcessEngine:
    """Runs clients in `workers` processes; the same bits as `InProcessEngine`, in any arrival order."""

    gaps = True

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        settings: Settings,
        workers: int,
        pulse: Pulse = no_pulse,
        start_method: str | None = None,
    ) -> None:
        self._settings, self._pulse = settings, pulse
        start_method = start_method or default_start_method(settings.device)
        self._pool = WorkerPool(task, algorithm, settings, workers, start_method)
        self._sent_boxes: dict[int, Outbox] = {}
        self._held: Held[Sent] = Held()
        self._free_boxes: list[Outbox] = []
        self._box_numbers = itertools.count()
        self._open: list[Computation] = []

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Give the jobs to free workers and yield replies as they arrive.

        A worker for whom no job is left goes on with the computations that are open, as long as others train.
        """
        groups = grouped(jobs, self._settings)
        # The first job says which exchange this is, which must be known before the message is written.
        first = next(groups, None)
        if first is None:
            return
        held = self._send(message, first[0])
        seconds = self._settings.client_timeout
        works = (TrainWork(held, group, seconds) for group in itertools.chain([first], groups))
        for replies in Spread(self._pool, works, self._pulse, self._open).results():
            yield from replies

    def _send(self, message: Message, job: Job) -> list[Sent]:
        """Write the message of an exchange, and return where it and the round's earlier ones lie.

        Each exchange of a round has a box of its own, so what was written is there for any worker, new ones included.
        """
        if job.exchange not in self._sent_boxes:
            self._sent_boxes[job.exchange] = Outbox(self._pool.directory, f"down{job.exchange}")
        vectors = self._sent_boxes[job.exchange].write(message.vectors)
        return self._held.receive(job.round, job.exchange, Sent(vectors, message.scalars))

    def compute(
        self, piece: WorkFunction, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Spread the items over the workers, now or in the gaps of an exchange. Not interrupted.

        What is given is copied at once.
        """
        box = self._free_box()
        computation = Computation(box.write(given), piece, items)
        self._open.append(computation)
        return self._results(computation, box)

    def _free_box(self) -> Outbox:
        if self._free_boxes:
            return self._free_boxes.pop()
        return Outbox(self._pool.directory, f"given{next(self._box_numbers)}")

    def _results(self, computation: Computation, box: Outbox) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Yield what was done in gaps, then what is still to do."""
        # As in every generator, this runs when the first result is asked for: until then, gaps are filled with it.
        self._open.remove(computation)
        if computation.error is not None:
            raise computation.error
        yield from computation.results
        # Without a pulse: after an interrupt, the last round is still evaluated before its state is saved.
        yield from Spread(self._pool, computation.works(), no_pulse, ()).results()
        # Not before the last piece is done: workers read what was given from here.
        self._free_boxes.append(box)

    def close(self) -> None:
        """End the workers and free the shared memory."""
        self._pool.close()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid for worker in self._pool.workers]
