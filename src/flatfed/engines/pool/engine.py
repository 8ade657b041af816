"""The engine of every kind of worker: what is sent, spread and collected.

A worker that dies is replaced and its client is run again; a client that takes its worker down repeatedly
ends the run with its id. A client that takes longer than `client_timeout` is given up: its worker is killed
and replaced, and the others go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.engine import Held, Item, Jobs, Reply, WorkFunction
from flatfed.core.method.messages import Message
from flatfed.core.round.step_count import step_count
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.engines.in_process import grouped
from flatfed.engines.pool.protocol import WorkerPool
from flatfed.engines.pool.spreading import Spread
from flatfed.engines.pool.work import Computation, TrainWork


class PoolEngine:
    """Runs clients on the workers of a pool; the same bits as `InProcessEngine`, in any arrival order."""

    gaps = True

    def __init__(self, pool: WorkerPool[Any], settings: Settings, pulse: Pulse = no_pulse) -> None:
        self._pool, self._settings, self._pulse = pool, settings, pulse
        self._held = Held[Any]()
        self._open: list[Computation] = []

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Give the jobs to free workers and yield replies as they arrive.

        A worker for whom no job is left goes on with the computations that are open, as long as others train.
        """
        groups = grouped(jobs, self._settings)
        # The first job says which exchange this is, which must be known before the message is sent.
        first = next(groups, None)
        if first is None:
            return
        job, settings = first[0], self._settings
        held = self._held.receive(job.round, job.exchange, self._pool.send(message, job.exchange))
        works = (TrainWork(held, group, settings.client_timeout) for group in itertools.chain([first], groups))
        spread = Spread(self._pool, works, self._counting(), self._open, settings.exchange_timeout)
        for replies in spread.results():
            yield from replies

    def _counting(self) -> Pulse:
        """Return a pulse that also tells how many steps the workers took, where they count and somebody hears."""
        steps, pool = step_count(), self._pool
        if steps is None:
            return self._pulse
        before = pool.steps()

        def count() -> None:
            steps.taken(pool.steps() - before)
            self._pulse()

        return count

    def compute(
        self, piece: WorkFunction, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Spread the items over the workers, now or in the gaps of an exchange. Not interrupted.

        What is given is copied at once.
        """
        shared = self._pool.share(given)
        computation = Computation(shared, piece, items)
        self._open.append(computation)
        return self._results(computation, shared)

    def _results(self, computation: Computation, shared: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Yield what was done in gaps, then what is still to do."""
        # As in every generator, this runs when the first result is asked for: until then, gaps are filled with it.
        self._open.remove(computation)
        if computation.error is not None:
            raise computation.error
        yield from computation.results
        # Without a pulse: after an interrupt, the last round is still evaluated before its state is saved.
        yield from Spread(self._pool, computation.works(), no_pulse).results()
        # Not before the last piece is done: workers read what was given from here.
        self._pool.release(shared)

    def close(self) -> None:
        """End the workers and free what was taken."""
        self._pool.close()
