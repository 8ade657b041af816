"""The process pool: persistent workers, one thread each, vectors through shared memory.

A worker that dies is replaced and its client is run again; a client that takes its worker down repeatedly
ends the run with its id.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import sys
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch
from torch import Tensor

from flatfed.core.algorithm import Algorithm
from flatfed.core.devices import share
from flatfed.core.engine import Jobs, Reply
from flatfed.core.errors import EngineError
from flatfed.core.evaluation import Calibration, averaged, has_batch_norm, test_chunks
from flatfed.core.messages import Message
from flatfed.core.metrics import Figure
from flatfed.core.settings import Settings
from flatfed.core.task import Task
from flatfed.engines.arena import Inbox, Outbox, shared_directory
from flatfed.engines.in_process import grouped, summary
from flatfed.engines.work import CalibrateWork, MeasureWork, TrainWork, Work, done_or_error
from flatfed.engines.worker import Answer, serve

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
        self._calibrates = settings.eval_stats == "recalibrate" and has_batch_norm(task.model)
        self._directory = shared_directory()
        self._common = Outbox(self._directory, "down")
        self._seats = [Seat(f"worker{i}", Outbox(self._directory, f"worker{i}-down")) for i in range(workers)]
        self._cleanup = weakref.finalize(self, _shut, os.getpid(), self._seats, str(self._directory))
        for seat in self._seats:
            self._start(seat)

    @functools.cached_property
    def _calibration(self) -> Calibration:
        return Calibration(self._task, self._settings.seed)

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Give the jobs to free workers and yield replies as they arrive."""
        common, groups = self._common.write(message.vectors), grouped(jobs, self._settings)
        works = (TrainWork(common, message.scalars, group) for group in groups)
        for replies in self._spread(works, self._pulse):
            yield from replies

    def evaluate(self, w: Tensor, buffers: Mapping[str, Tensor]) -> dict[str, Figure]:
        """Return the test figures of a model; the workers share the test sets' batches.

        Not interrupted: the round is over, and its row must reach the history.
        """
        chunks = test_chunks(self._task)
        if not chunks:
            return {}
        if self._calibrates:
            buffers = self._calibrated(w, buffers)
        common = self._common.write({"w": w, **buffers})
        works = [MeasureWork(common, *chunk) for chunk in chunks]
        parts = dict(self._spread(iter(works), lambda: None))
        return summary(self._task, [(test, parts[test, first]) for test, first, _ in chunks])

    def _calibrated(self, w: Tensor, buffers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the buffers with statistics of the calibration sample, whose batches the workers share."""
        common, batches = self._common.write({"w": w, **buffers}), range(len(self._calibration))
        found = dict(self._spread((CalibrateWork(common, number) for number in batches), lambda: None))
        return {**buffers, **averaged([found[number] for number in batches])}

    def close(self) -> None:
        """End the workers and free the shared memory."""
        self._cleanup()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [seat.process.pid for seat in self._seats]

    def _spread(self, works: Iterator[Work[T]], pulse: Callable[[], None]) -> Iterator[T]:
        """Keep every worker busy until all works are answered, and yield results as they come."""
        again, deaths = deque[Work[T]](), Counter[str]()
        busy: dict[Seat, Work[T]] = {}
        try:
            while self._fill(works, again, busy, deaths):
                for seat in self._ready(busy, pulse):
                    work = busy.pop(seat)
                    answer = self._take(seat)
                    if answer is None:
                        self._bury(seat, work, deaths, again)
                    else:
                        yield work.result(done_or_error(answer, work), seat.inbox)
        finally:
            # Abandoned in the middle: an answer still to come must not be taken for the next one's.
            for seat in busy:
                seat.process.kill()
                seat.process.join()

    def _fill(
        self, works: Iterator[Work[T]], again: deque[Work[T]], busy: dict[Seat, Work[T]], deaths: Counter[str]
    ) -> bool:
        """Give every free worker something to do; say whether anyone is at work."""
        for seat in self._seats:
            while seat not in busy:
                work = again.popleft() if again else next(works, None)
                if work is None:
                    break
                if not seat.process.is_alive():
                    self._start(seat)  # it ended without work, so no client is to blame
                if self._give(seat, work):
                    busy[seat] = work
                else:
                    self._bury(seat, work, deaths, again)
        return bool(busy)

    def _ready(self, busy: dict[Seat, Work[T]], pulse: Callable[[], None]) -> list[Seat]:
        """Wait until a busy worker has answered or died; look up now and then for the interrupt key."""
        pipes = {seat.pipe: seat for seat in busy}
        while pipes:
            pulse()
            ready = multiprocessing.connection.wait(list(pipes), POLL_SECONDS)  # type: ignore[arg-type]
            if ready:
                return [pipes[pipe] for pipe in ready]  # type: ignore[index]
        return []

    def _give(self, seat: Seat, work: Work[Any]) -> bool:
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

    def _bury(self, seat: Seat, work: Work[T], deaths: Counter[str], again: deque[Work[T]]) -> None:
        """Replace a dead worker and put its work back, unless that work has killed too many."""
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
        again.append(work)

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
