"""One spreading of works over a pool: who does what, what is done again, what is late, and what fills the gaps."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.round.trainer import Pulse
from flatfed.engines.pool.protocol import W, WorkerPool
from flatfed.engines.pool.work import Begun, Computation, ComputeWork, Died, Outcome, Work, result_or_error

T = TypeVar("T")

MAX_DEATHS = 3
# Short enough for an interrupt to seem prompt, long enough to cost nothing.
POLL_SECONDS = 0.2


class Spread(Generic[W, T]):
    """One spreading of works over a pool: who does what, what is to be done again, and what has killed its worker.

    A worker for whom no work is left takes up pieces of the computations that can be done `meanwhile`, as long as
    others work. A work that is out of time loses its worker; it is given again in parts, or has no result. After
    `seconds`, where they are given, no work that is not done has one.
    """

    def __init__(
        self,
        pool: WorkerPool[W],
        works: Iterator[Work[T]],
        pulse: Pulse,
        meanwhile: Sequence[Computation] = (),
        seconds: float | None = None,
    ) -> None:
        self._pool, self._works, self._pulse, self._meanwhile = pool, works, pulse, meanwhile
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._again: deque[Work[T]] = deque()
        self._deaths: Counter[str] = Counter()
        self._busy: dict[W, Work[T]] = {}
        self._deadlines: dict[W, float] = {}
        self._in_gaps: dict[W, tuple[ComputeWork, Computation]] = {}

    def results(self) -> Iterator[T]:
        """Keep every worker busy until all works are answered, and yield results as they come."""
        try:
            while self._all_at_work() or self._some_at_work():
                for worker in self._answering():
                    yield from self._received(worker)
                for worker in self._overdue():
                    yield from self._given_up(worker)
                if self._is_over():
                    yield from self._all_given_up()
                    return
        finally:
            self._abandon()

    def _all_at_work(self) -> bool:
        """Give every free worker a work; say whether there was one for each."""
        workers = self._pool.workers
        if not workers:
            return self._is_work_left()
        for worker in workers:
            # It is still free where it had died before it took the work.
            while self._is_free(worker):
                work = self._next_work()
                if work is None:
                    return False
                self._give(worker, work)
        return True

    def _is_work_left(self) -> bool:
        work = self._next_work()
        if work is not None:
            self._again.appendleft(work)
        return work is not None

    def _some_at_work(self) -> bool:
        """Fill the gaps of those that are left without work; say whether anyone is at work."""
        if self._busy:
            self._fill_gaps()
        return bool(self._busy) or bool(self._in_gaps)

    def _is_free(self, worker: W) -> bool:
        return worker not in self._busy and worker not in self._in_gaps

    def _next_work(self) -> Work[T] | None:
        # Works are made one by one, when a worker is free: only then is a client's state read from the disk.
        return self._again.popleft() if self._again else next(self._works, None)

    def _give(self, worker: W, work: Work[T]) -> None:
        if self._pool.give(worker, work):
            self._busy[worker] = work
            return
        outcome = self._pool.take(worker, work)
        assert isinstance(outcome, Died)
        self._replace(worker, work, outcome)
        self._again.append(work)

    def _fill_gaps(self) -> None:
        for worker in self._pool.workers:
            computation = next((one for one in self._meanwhile if one.todo), None)
            if computation is None:
                return
            if self._is_free(worker):
                self._give_piece(worker, computation)

    def _give_piece(self, worker: W, computation: Computation) -> None:
        piece = computation.todo.popleft()
        if self._pool.give(worker, piece):
            self._in_gaps[worker] = piece, computation
        else:
            computation.todo.appendleft(piece)

    def _answering(self) -> list[W]:
        """Wait a moment for workers that have answered or died; look up for the interrupt key."""
        self._pulse()
        return self._pool.wait((*self._busy, *self._in_gaps), self._patience())

    def _patience(self) -> float:
        """Return how long to wait for answers: until a deadline, at most."""
        ends = [*self._deadlines.values()]
        if self._end is not None:
            ends.append(self._end)
        if not ends:
            return POLL_SECONDS
        left = min(ends) - time.monotonic()
        return min(max(left, 0.0), POLL_SECONDS)

    def _overdue(self) -> list[W]:
        """Return the workers whose time is over and that have not answered."""
        now = time.monotonic()
        late = [worker for worker, deadline in self._deadlines.items() if deadline <= now]
        # An answer may have come while others were read.
        return [worker for worker in late if not self._pool.has_answered(worker)]

    def _is_over(self) -> bool:
        """Say whether the time for all is over."""
        return self._end is not None and time.monotonic() >= self._end

    def _given_up(self, worker: W) -> Iterator[T]:
        """Put another worker in the place of one that hangs; its work is given again in parts, or has no result."""
        work = self._busy.pop(worker)
        del self._deadlines[worker]
        # No death that counts against the work: its worker was killed from here.
        self._pool.kill(worker)
        self._pool.replace(worker)
        parts = work.parts()
        self._again.extend(parts)
        if not parts:
            yield work.no_result()

    def _all_given_up(self) -> Iterator[T]:
        """Say of every work that was given, and is not done, that it has no result."""
        works = [*self._busy.values(), *self._again]
        for worker in self._busy:
            self._pool.kill(worker)
            self._pool.replace(worker)
        self._busy.clear()
        self._again.clear()
        for work in works:
            yield work.no_result(self._seconds)

    def _received(self, worker: W) -> Iterator[T]:
        """Yield the result of a work; what was done in a gap goes to its computation."""
        if worker in self._in_gaps:
            self._file(worker)
            return
        outcome: Outcome[T] = self._pool.take(worker, self._busy[worker])
        if isinstance(outcome, Begun):
            self._start_clock(worker)
            return
        self._deadlines.pop(worker, None)
        # No longer busy, whatever comes of its answer: a worker that has answered need not be ended after an error.
        work = self._busy.pop(worker)
        if isinstance(outcome, Died):
            self._replace(worker, work, outcome)
            self._again.append(work)
        else:
            yield result_or_error(outcome, work)

    def _start_clock(self, worker: W) -> None:
        """Let the time of a worker's work begin."""
        seconds = self._busy[worker].seconds
        if seconds is not None:
            self._deadlines[worker] = time.monotonic() + seconds

    def _file(self, worker: W) -> None:
        """Put what was done in a gap with its computation; an error waits there until the results are asked for."""
        piece, computation = self._in_gaps.pop(worker)
        outcome = self._pool.take(worker, piece)
        assert not isinstance(outcome, Begun)  # only clients have a time
        try:
            if isinstance(outcome, Died):
                self._replace(worker, piece, outcome)
                computation.todo.appendleft(piece)
            else:
                computation.results.append(result_or_error(outcome, piece))
        except FlatfedError as error:
            computation.fail(error)

    def _replace(self, worker: W, work: Work[Any], death: Died) -> None:
        """Have another worker in place of a dead one, unless its work has killed too many."""
        if death.is_blamed:
            self._deaths[work.label] += 1
        # Another is started even where the error follows, so that the pool is whole for whoever catches it.
        self._pool.replace(worker)
        if self._deaths[work.label] >= MAX_DEATHS:
            raise EngineError(
                f"{work.label} ended its worker process {MAX_DEATHS} times ({death.how}); "
                "it may need more memory than there is, or its data or model may crash the interpreter"
            )

    def _abandon(self) -> None:
        """End workers that still compute: their answers must not be taken for those of the next work."""
        for piece, computation in self._in_gaps.values():
            computation.todo.appendleft(piece)
        for worker in (*self._busy, *self._in_gaps):
            # `WorkerPool.give` has others in their place when there is work again.
            self._pool.kill(worker)
