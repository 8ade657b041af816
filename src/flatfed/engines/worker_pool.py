"""A pool of worker processes: pieces of work are spread over them, and those that die are replaced."""

from __future__ import annotations

import multiprocessing.connection
import os
import shutil
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.model.devices import share
from flatfed.core.task.task import Task
from flatfed.engines.arena import shared_directory
from flatfed.engines.work import Computation, ComputeWork, Work, done_or_error
from flatfed.engines.worker import Answer
from flatfed.engines.worker_handle import WorkerHandle

MAX_DEATHS = 3
# Short enough for an interrupt to seem prompt, long enough to cost nothing.
POLL_SECONDS = 0.2

T = TypeVar("T")
Pulse = Callable[[], None]


class WorkerPool:
    """Worker processes for one task, and the shared memory between them and this process."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, workers: int, start_method: str) -> None:
        self._task, self._algorithm, self._settings = task, algorithm, settings
        self.directory: Path = shared_directory()
        self.workers = [WorkerHandle(f"worker{n}", self.directory, start_method) for n in range(workers)]
        # A finalizer and not `__del__`: it also runs where the interpreter ends without a word to the pool.
        # It is given the parts and not the pool, which it would keep alive.
        self._cleanup = weakref.finalize(self, _shut, os.getpid(), self.workers, str(self.directory))
        for worker in self.workers:
            self.start(worker)

    def start(self, worker: WorkerHandle) -> None:
        """Start a worker's process, or a new one in its place."""
        device = share(self._settings.device, self.workers.index(worker))
        worker.start(self._task, self._algorithm, self._settings.replace(device=device), self.workers)

    def give(self, worker: WorkerHandle, work: Work[Any]) -> bool:
        """Give a worker something to do; say whether it took it."""
        if not worker.is_alive:
            self.start(worker)  # it ended without work, so nobody is to blame
        return worker.give(work)

    def close(self) -> None:
        """End the workers and free the shared memory."""
        self._cleanup()


def _shut(owner: int, workers: list[WorkerHandle], directory: str) -> None:
    """End the workers: those that wait leave when asked, those that compute are killed."""
    if os.getpid() != owner:  # a forked child has a copy of the pool; it is not the child's to end
        return
    for worker in workers:
        # All are asked before one is waited for, so that they leave at the same time.
        worker.ask_to_leave()
    for worker in workers:
        worker.end()
    shutil.rmtree(directory, ignore_errors=True)


class Spread(Generic[T]):
    """One spreading of works over a pool: who does what, what is to be done again, and what has killed its worker.

    A worker for whom no work is left takes up pieces of the computations that can be done `meanwhile`, as long as
    others work.
    """

    def __init__(
        self, pool: WorkerPool, works: Iterator[Work[T]], pulse: Pulse, meanwhile: Sequence[Computation]
    ) -> None:
        self._pool, self._works, self._pulse, self._meanwhile = pool, works, pulse, meanwhile
        self._again: deque[Work[T]] = deque()
        self._deaths: Counter[str] = Counter()
        self._busy: dict[WorkerHandle, Work[T]] = {}
        self._in_gaps: dict[WorkerHandle, tuple[ComputeWork, Computation]] = {}

    def results(self) -> Iterator[T]:
        """Keep every worker busy until all works are answered, and yield results as they come."""
        try:
            while self._all_at_work() or self._some_at_work():
                for worker in self._answering():
                    yield from self._received(worker, worker.take())
        finally:
            self._abandon()

    def _all_at_work(self) -> bool:
        """Give every free worker a work; say whether there was one for each."""
        for worker in self._pool.workers:
            # It is still free where its process had died before it took the work.
            while self._is_free(worker):
                work = self._next_work()
                if work is None:
                    return False
                self._give(worker, work)
        return True

    def _some_at_work(self) -> bool:
        """Fill the gaps of those that are left without work; say whether anyone is at work."""
        if self._busy:
            self._fill_gaps()
        return bool(self._busy) or bool(self._in_gaps)

    def _is_free(self, worker: WorkerHandle) -> bool:
        return worker not in self._busy and worker not in self._in_gaps

    def _next_work(self) -> Work[T] | None:
        # Works are made one by one, when a worker is free: only then is a client's state read from the disk.
        return self._again.popleft() if self._again else next(self._works, None)

    def _give(self, worker: WorkerHandle, work: Work[T]) -> None:
        if self._pool.give(worker, work):
            self._busy[worker] = work
            return
        self._replace(worker, work)
        self._again.append(work)

    def _fill_gaps(self) -> None:
        for worker in self._pool.workers:
            computation = next((one for one in self._meanwhile if one.todo), None)
            if computation is None:
                return
            if self._is_free(worker):
                self._give_piece(worker, computation)

    def _give_piece(self, worker: WorkerHandle, computation: Computation) -> None:
        piece = computation.todo.popleft()
        if self._pool.give(worker, piece):
            self._in_gaps[worker] = piece, computation
        else:
            computation.todo.appendleft(piece)

    def _answering(self) -> list[WorkerHandle]:
        """Wait until a worker has answered or died; look up now and then for the interrupt key."""
        pipes = {worker.pipe: worker for worker in (*self._busy, *self._in_gaps)}
        while pipes:
            self._pulse()
            ready = multiprocessing.connection.wait(list(pipes), POLL_SECONDS)  # type: ignore[arg-type]
            if ready:
                return [pipes[pipe] for pipe in ready]  # type: ignore[index]
        return []

    def _received(self, worker: WorkerHandle, answer: Answer | None) -> Iterator[T]:
        """Yield the result of a work; what was done in a gap goes to its computation."""
        if worker in self._in_gaps:
            self._file(worker, answer)
            return
        # No longer busy, whatever comes of its answer: a worker that has answered need not be ended after an error.
        work = self._busy.pop(worker)
        if answer is None:
            self._replace(worker, work)
            self._again.append(work)
        else:
            yield work.result(done_or_error(answer, work), worker.inbox)

    def _file(self, worker: WorkerHandle, answer: Answer | None) -> None:
        """Put what was done in a gap with its computation; an error waits there until the results are asked for."""
        piece, computation = self._in_gaps.pop(worker)
        try:
            if answer is None:
                self._replace(worker, piece)
                computation.todo.appendleft(piece)
            else:
                computation.results.append(piece.result(done_or_error(answer, piece), worker.inbox))
        except FlatfedError as error:
            computation.fail(error)

    def _replace(self, worker: WorkerHandle, work: Work[Any]) -> None:
        """Start another process in place of a dead one, unless its work has killed too many."""
        code = worker.exit_code()
        self._deaths[work.label] += 1
        # Another is started even where the error follows, so that the pool is whole for whoever catches it.
        self._pool.start(worker)
        if self._deaths[work.label] >= MAX_DEATHS:
            raise EngineError(
                f"{work.label} ended its worker process {MAX_DEATHS} times (exit code {code}); "
                "it may need more memory than there is, or its data or model may crash the interpreter"
            )

    def _abandon(self) -> None:
        """End workers that still compute: their answers must not be taken for those of the next work."""
        for piece, computation in self._in_gaps.values():
            computation.todo.appendleft(piece)
        for worker in (*self._busy, *self._in_gaps):
            # `WorkerPool.give` starts others in their place when there is work again.
            worker.kill()
