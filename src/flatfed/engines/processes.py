"""The process pool: persistent workers, one thread each, vectors through shared memory.

A worker that dies is replaced and its client is run again; a client that takes its worker down repeatedly
ends the run with its id.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import sys
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.messages import Message
from flatfed.core.model.devices import share
from flatfed.core.round.engine import Held, Item, Job, Jobs, Piece, Reply
from flatfed.core.task.task import Task
from flatfed.engines.arena import Inbox, Outbox, shared_directory
from flatfed.engines.in_process import grouped
from flatfed.engines.work import Computation, ComputeWork, TrainWork, Work, done_or_error
from flatfed.engines.worker import Answer, Sent, serve

MAX_DEATHS = 3
POLL_SECONDS = 0.2
GRACE_SECONDS = 1.0

T = TypeVar("T")


@dataclass(eq=False)
class Seat:
    """One worker: its process, its pipe, and the shared memory in both directions."""

    name: str
    outbox: Outbox
    inbox: Inbox = field(default_factory=Inbox)
    process: Any = None
    pipe: Connection | None = None


class ProcessEngine:
    """Runs clients in `workers` processes; the same bits as `InProcessEngine`, in any arrival order."""

    gaps = True

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        settings: Settings,
        workers: int,
        pulse: Callable[[], None] = lambda: None,
        start_method: str | None = None,
    ) -> None:
        self._task, self._algorithm, self._settings, self._pulse = task, algorithm, settings, pulse
        self._context: Any = multiprocessing.get_context(start_method or default_start_method(settings.device))
        self._directory = shared_directory()
        self._common, self._held = dict[int, Outbox](), Held[Sent]()
        self._boxes, self._numbers = list[Outbox](), itertools.count()
        self._open: list[Computation] = []
        self._seats = [Seat(f"worker{i}", Outbox(self._directory, f"worker{i}-down")) for i in range(workers)]
        self._cleanup = weakref.finalize(self, _shut, os.getpid(), self._seats, str(self._directory))
        for seat in self._seats:
            self._start(seat)

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Give the jobs to free workers and yield replies as they arrive.

        A worker for whom no job is left goes on with the computations that are open, as long as others train.
        """
        groups = grouped(jobs, self._settings)
        first = next(groups, None)
        if first is None:
            return
        held = self._send(message, first[0])
        works = (TrainWork(held, group) for group in itertools.chain([first], groups))
        for replies in self._spread(works, self._pulse, self._open):
            yield from replies

    def _send(self, message: Message, job: Job) -> list[Sent]:
        """Write the message of an exchange, and return where it and the round's earlier ones lie.

        Each exchange of a round has a box of its own, so what was written is there for any worker, new ones included.
        """
        box = self._common.setdefault(job.exchange, Outbox(self._directory, f"down{job.exchange}"))
        sent = Sent(box.write(message.vectors), message.scalars)
        return self._held.receive(job.round, job.exchange, sent)

    def compute(
        self, piece: Piece, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Spread the items over the workers, now or in the gaps of an exchange. Not interrupted.

        What is given is copied at once.
        """
        box = self._boxes.pop() if self._boxes else Outbox(self._directory, f"given{next(self._numbers)}")
        computation = Computation(box.write(given), piece, items)
        self._open.append(computation)
        return self._results(computation, box)

    def _results(self, computation: Computation, box: Outbox) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Yield what was found in gaps, then what is still to do."""
        self._open.remove(computation)
        if computation.error is not None:
            raise computation.error
        yield from computation.found
        yield from self._spread(computation.works(), lambda: None)
        self._boxes.append(box)

    def close(self) -> None:
        """End the workers and free the shared memory."""
        self._cleanup()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [seat.process.pid for seat in self._seats]

    def _spread(
        self, works: Iterator[Work[T]], pulse: Callable[[], None], meanwhile: Sequence[Computation] = ()
    ) -> Iterator[T]:
        """Keep every worker busy until all works are answered, and yield results as they come.

        A worker that finds no more works takes up a piece of what can be done meanwhile.
        """
        again, deaths = deque[Work[T]](), Counter[str]()
        busy: dict[Seat, Work[T]] = {}
        filling: dict[Seat, tuple[ComputeWork, Computation]] = {}
        try:
            while self._fill(works, again, busy, filling, deaths) or self._fill_gaps(busy, filling, meanwhile):
                for seat in self._ready([*busy, *filling], pulse):
                    answer = self._take(seat)
                    if seat in filling:
                        self._file(seat, answer, filling, deaths)
                        continue
                    work = busy.pop(seat)
                    if answer is None:
                        self._bury(seat, work, deaths)
                        again.append(work)
                    else:
                        yield work.result(done_or_error(answer, work), seat.inbox)
        finally:
            # Abandoned in the middle: an answer still to come must not be taken for the next one's.
            for piece, computation in filling.values():
                computation.todo.appendleft(piece)
            for seat in (*busy, *filling):
                seat.process.kill()
                seat.process.join()

    def _fill(
        self,
        works: Iterator[Work[T]],
        again: deque[Work[T]],
        busy: dict[Seat, Work[T]],
        taken: Container[Seat],
        deaths: Counter[str],
    ) -> bool:
        """Give every free worker something to do; say whether all are at work."""
        for seat in self._seats:
            while seat not in busy and seat not in taken:
                work = again.popleft() if again else next(works, None)
                if work is None:
                    return False
                if self._give(seat, work):
                    busy[seat] = work
                else:
                    self._bury(seat, work, deaths)
                    again.append(work)
        return True

    def _fill_gaps(
        self,
        busy: Container[Seat],
        filling: dict[Seat, tuple[ComputeWork, Computation]],
        meanwhile: Sequence[Computation],
    ) -> bool:
        """Give workers without work a piece of what can be done meanwhile, while others work; say if anyone does."""
        for seat in self._seats if busy else ():
            computation = next((one for one in meanwhile if one.todo), None)
            if computation is not None and seat not in busy and seat not in filling:
                piece = computation.todo.popleft()
                if self._give(seat, piece):
                    filling[seat] = piece, computation
                else:
                    computation.todo.appendleft(piece)
        return bool(busy) or bool(filling)

    def _file(
        self,
        seat: Seat,
        answer: Answer | None,
        filling: dict[Seat, tuple[ComputeWork, Computation]],
        deaths: Counter[str],
    ) -> None:
        """Put what was done in a gap with its computation; an error waits there until the results are asked for."""
        piece, computation = filling.pop(seat)
        try:
            if answer is None:
                self._bury(seat, piece, deaths)
                computation.todo.appendleft(piece)
            else:
                computation.found.append(piece.result(done_or_error(answer, piece), seat.inbox))
        except FlatfedError as error:
            computation.fail(error)

    def _ready(self, seats: Sequence[Seat], pulse: Callable[[], None]) -> list[Seat]:
        """Wait until a busy worker has answered or died; look up now and then for the interrupt key."""
        pipes = {seat.pipe: seat for seat in seats}
        while pipes:
            pulse()
            ready = multiprocessing.connection.wait(list(pipes), POLL_SECONDS)  # type: ignore[arg-type]
            if ready:
                return [pipes[pipe] for pipe in ready]  # type: ignore[index]
        return []

    def _give(self, seat: Seat, work: Work[Any]) -> bool:
        if not seat.process.is_alive():
            self._start(seat)  # it ended without work, so nobody is to blame
        assert seat.pipe is not None
        command = work.command(seat.outbox)
        try:
            seat.pipe.send(command)
            return True
        except OSError:
            return False

    def _take(self, seat: Seat) -> Answer | None:
        assert seat.pipe is not None
        try:
            answer: Answer = seat.pipe.recv()
            return answer
        except (EOFError, OSError):
            return None

    def _bury(self, seat: Seat, work: Work[Any], deaths: Counter[str]) -> None:
        """Replace a dead worker, unless its work has killed too many."""
        seat.process.join(timeout=5)
        deaths[work.label] += 1
        code = seat.process.exitcode
        if deaths[work.label] >= MAX_DEATHS:
            self._start(seat)
            raise EngineError(
                f"{work.label} ended its worker process {MAX_DEATHS} times (exit code {code}); "
                "it may need more memory than there is, or its data or model may crash the interpreter"
            )
        self._start(seat)

    def _start(self, seat: Seat) -> None:
        if seat.process is not None:
            seat.process.kill()
            seat.process.join()
        if seat.pipe is not None:
            seat.pipe.close()
            seat.pipe = None
        for left in self._directory.glob(f"{seat.name}-up-*"):
            left.unlink(missing_ok=True)
        here, there = self._context.Pipe()
        # A forked child inherits the parent's ends; it must close them to notice when the parent is gone.
        ends = [here, *(s.pipe for s in self._seats if s.pipe is not None)]
        inherited = ends if self._context.get_start_method() == "fork" else []
        args = (
            there,
            inherited,
            str(self._directory),
            seat.name,
            self._task,
            self._algorithm,
            self._settings.replace(device=share(self._settings.device, self._seats.index(seat))),
        )
        seat.process = self._context.Process(target=serve, args=args, name=f"flatfed-{seat.name}", daemon=True)
        seat.inbox = Inbox()
        with warnings.catch_warnings():
            # Python 3.12 and later warn about any fork in a process with threads; workers only compute.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                seat.process.start()
            except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
                raise EngineError(
                    f"this task cannot be sent to worker processes ({error}); define its model, loss and data "
                    "sets at the top level of a module, or use workers=0"
                ) from error
        there.close()
        seat.pipe = here


def _shut(owner: int, seats: list[Seat], directory: str) -> None:
    """End the workers: those that wait leave when asked, those that compute are killed."""
    if os.getpid() != owner:
        return
    for seat in seats:
        if seat.pipe is not None:
            with contextlib.suppress(OSError):
                seat.pipe.send(None)
    for seat in seats:
        if seat.process is not None and seat.process.pid is not None:
            seat.process.join(timeout=GRACE_SECONDS)
            seat.process.kill()
            seat.process.join()
        if seat.pipe is not None:
            seat.pipe.close()
    shutil.rmtree(directory, ignore_errors=True)


def default_start_method(device: str = "cpu") -> str:
    """Return `fork` where it is safe (Linux without a GPU in use): any model and data set can be used as it is."""
    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return "fork" if sys.platform == "linux" and device == "cpu" and not in_use else "spawn"
