"""Worker processes: started, given work, replaced when they die, ended; and the pool that spreads work over them."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.model.devices import share
from flatfed.core.task.task import Task
from flatfed.engines.arena import Inbox, Outbox
from flatfed.engines.shared_directory import SharedDirectory
from flatfed.engines.work import Computation, ComputeWork, Work, done_or_error
from flatfed.engines.worker import Answer, Begun, Parent, serve
from flatfed.machine import STOP_SIGNALS

GRACE_SECONDS = 1.0
"""A worker that waits for work is given this long to leave when it is asked to."""


class WorkerHandle:
    """One worker: its process, its pipe, and the shared memory in both directions."""

    def __init__(self, name: str, directory: Path, start_method: str) -> None:
        self.name = name
        self.outbox, self.inbox = Outbox(directory, f"{name}-down"), Inbox()
        self.process: Any = None
        self.pipe: Connection | None = None
        self._directory = directory
        self._context: Any = multiprocessing.get_context(start_method)

    def start(self, task: Task, algorithm: Algorithm, settings: Settings, others: Sequence[WorkerHandle]) -> None:
        """Start the process, or one in place of it; `others` are the workers of the same pool."""
        self._clear()
        here, there = self._context.Pipe()
        ends = there, self._inherited(here, others), Parent.here()
        arguments = (*ends, str(self._directory), self.name, task, algorithm, settings)
        self.process = self._context.Process(target=serve, args=arguments, name=f"flatfed-{self.name}", daemon=True)
        self.inbox = Inbox()
        self._launch()
        # While the child's end is open here as well, its death would not show as the end of the pipe.
        there.close()
        self.pipe = here

    def _clear(self) -> None:
        """Remove what is left of a process that was here before."""
        self.kill()
        self._close_pipe()
        for file in self._directory.glob(f"{self.name}-up-*"):
            # A process that was killed leaves its files, which may be memory.
            file.unlink(missing_ok=True)

    def _inherited(self, here: Connection, others: Sequence[WorkerHandle]) -> list[Connection]:
        """Return the parent's ends of pipes, which a forked child must close to notice when the parent is gone."""
        if self._context.get_start_method() != "fork":
            return []
        return [here, *(other.pipe for other in others if other.pipe is not None)]

    def _launch(self) -> None:
        with _signals_held(), warnings.catch_warnings():
            # Python 3.12 and later warn about any fork in a process with threads; workers only compute.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self.process.start()
            except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
                raise EngineError(
                    f"this task cannot be sent to worker processes ({error}); define its model, loss and data "
                    "sets at the top level of a module, or use workers=0"
                ) from error

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self.process.is_alive())

    def give(self, work: Work[Any]) -> bool:
        """Send a piece of work; say whether the worker was there to take it."""
        assert self.pipe is not None
        command = work.command(self.outbox)
        try:
            self.pipe.send(command)
        except OSError:
            return False
        return True

    def take(self) -> Answer | None:
        """Return the answer that is there; None where the worker has died instead."""
        assert self.pipe is not None
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return answer

    def exit_code(self) -> int | None:
        """Return how a process that has died ended."""
        # The pipe closes a moment before there is an exit code.
        self.process.join(timeout=5)
        code: int | None = self.process.exitcode
        return code

    def ask_to_leave(self) -> None:
        """Let the worker end once it has nothing to do."""
        if self.pipe is not None:
            with contextlib.suppress(OSError):
                self.pipe.send(None)

    def end(self) -> None:
        """Wait a moment for the worker to leave, then end it."""
        if self.process is not None and self.process.pid is not None:
            self.process.join(timeout=GRACE_SECONDS)
            self.kill()
        self._close_pipe()

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.join()

    def _close_pipe(self) -> None:
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold back signals while a process is forked: until it has its own handlers, it would run this one's."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def default_start_method(device: str = "cpu") -> str:
    """Return `fork` where it is safe (Linux without a GPU in use): any model and data set can be used as it is."""
    if sys.platform != "linux" or device != "cpu":
        return "spawn"
    # A process that has used CUDA cannot be forked: its child would hold a broken context.
    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return "spawn" if in_use else "fork"


MAX_DEATHS = 3
# Short enough for an interrupt to seem prompt, long enough to cost nothing.
POLL_SECONDS = 0.2

T = TypeVar("T")
Pulse = Callable[[], None]


class WorkerPool:
    """Worker processes for one task, and the shared memory between them and this process."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, workers: int, start_method: str) -> None:
        self._task, self._algorithm, self._settings = task, algorithm, settings
        self._shared = SharedDirectory()
        self.directory: Path = self._shared.path
        self.workers = [WorkerHandle(f"worker{n}", self.directory, start_method) for n in range(workers)]
        # A finalizer and not `__del__`: it also runs where the interpreter ends without a word to the pool.
        # It is given the parts and not the pool, which it would keep alive.
        self._cleanup = weakref.finalize(self, _shut, os.getpid(), self.workers, self._shared)
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


def _shut(owner: int, workers: list[WorkerHandle], directory: SharedDirectory) -> None:
    """End the workers: those that wait leave when asked, those that compute are killed."""
    if os.getpid() != owner:  # a forked child has a copy of the pool; it is not the child's to end
        return
    for worker in workers:
        # All are asked before one is waited for, so that they leave at the same time.
        worker.ask_to_leave()
    for worker in workers:
        worker.end()
    directory.remove()


class Spread(Generic[T]):
    """One spreading of works over a pool: who does what, what is to be done again, and what has killed its worker.

    A worker for whom no work is left takes up pieces of the computations that can be done `meanwhile`, as long as
    others work. A work that is out of time loses its worker; it is given again in parts, or has no result.
    """

    def __init__(
        self, pool: WorkerPool, works: Iterator[Work[T]], pulse: Pulse, meanwhile: Sequence[Computation]
    ) -> None:
        self._pool, self._works, self._pulse, self._meanwhile = pool, works, pulse, meanwhile
        self._again: deque[Work[T]] = deque()
        self._deaths: Counter[str] = Counter()
        self._busy: dict[WorkerHandle, Work[T]] = {}
        self._deadlines: dict[WorkerHandle, float] = {}
        self._in_gaps: dict[WorkerHandle, tuple[ComputeWork, Computation]] = {}

    def results(self) -> Iterator[T]:
        """Keep every worker busy until all works are answered, and yield results as they come."""
        try:
            while self._all_at_work() or self._some_at_work():
                for worker in self._answering():
                    yield from self._received(worker, worker.take())
                for worker in self._overdue():
                    yield from self._given_up(worker)
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
        """Wait until a worker has answered, died or run out of time; look up now and then for the interrupt key."""
        pipes = {worker.pipe: worker for worker in (*self._busy, *self._in_gaps)}
        while pipes:
            self._pulse()
            ready = multiprocessing.connection.wait(list(pipes), self._patience())  # type: ignore[arg-type]
            if ready:
                return [pipes[pipe] for pipe in ready]  # type: ignore[index]
            if self._overdue():
                return []
        return []

    def _patience(self) -> float:
        """Return how long to wait for answers: until a deadline, at most."""
        if not self._deadlines:
            return POLL_SECONDS
        left = min(self._deadlines.values()) - time.monotonic()
        return min(max(left, 0.0), POLL_SECONDS)

    def _overdue(self) -> list[WorkerHandle]:
        """Return the workers whose time is over and that have not answered."""
        now = time.monotonic()
        late = [worker for worker, deadline in self._deadlines.items() if deadline <= now]
        # An answer may have come while others were read.
        return [worker for worker in late if worker.pipe is not None and not worker.pipe.poll()]

    def _given_up(self, worker: WorkerHandle) -> Iterator[T]:
        """Put another worker in the place of one that hangs; its work is given again in parts, or has no result."""
        work = self._busy.pop(worker)
        del self._deadlines[worker]
        worker.kill()
        # No death that counts against the work: its worker was killed from here.
        self._pool.start(worker)
        parts = work.parts()
        self._again.extend(parts)
        if not parts:
            yield work.no_result()

    def _received(self, worker: WorkerHandle, answer: Answer | None) -> Iterator[T]:
        """Yield the result of a work; what was done in a gap goes to its computation."""
        if worker in self._in_gaps:
            self._file(worker, answer)
            return
        if isinstance(answer, Begun):
            self._start_clock(worker)
            return
        self._deadlines.pop(worker, None)
        # No longer busy, whatever comes of its answer: a worker that has answered need not be ended after an error.
        work = self._busy.pop(worker)
        if answer is None:
            self._replace(worker, work)
            self._again.append(work)
        else:
            yield work.result(done_or_error(answer, work), worker.inbox)

    def _start_clock(self, worker: WorkerHandle) -> None:
        """Let the time of a worker's work begin."""
        seconds = self._busy[worker].seconds
        if seconds is not None:
            self._deadlines[worker] = time.monotonic() + seconds

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
