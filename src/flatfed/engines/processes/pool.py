"""The pool of worker processes, and the shared memory between them and the server."""

from __future__ import annotations

import itertools
import multiprocessing.connection
import os
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.messages import Message
from flatfed.core.model.devices import share
from flatfed.core.round.trainer import Pulse, no_pulse
from flatfed.core.task.task import Task
from flatfed.engines.pool.engine import PoolEngine
from flatfed.engines.pool.work import Outcome, T, Work
from flatfed.engines.processes.arena import Header, Outbox
from flatfed.engines.processes.commands import Sent
from flatfed.engines.processes.handle import WorkerHandle, default_start_method
from flatfed.engines.processes.shared_directory import SharedDirectory


class ProcessEngine(PoolEngine):
    """Runs clients in `workers` processes, one thread each; vectors go through shared memory."""

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        settings: Settings,
        workers: int,
        pulse: Pulse = no_pulse,
        start_method: str | None = None,
    ) -> None:
        start_method = start_method or default_start_method(settings.device)
        self._processes = ProcessPool(task, algorithm, settings, workers, start_method)
        super().__init__(self._processes, settings, pulse)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid for worker in self._processes.workers]


@dataclass(frozen=True)
class Given:
    """What all pieces of a computation are given: the box, and where in it the tensors lie."""

    box: Outbox
    tensors: Header


class ProcessPool:
    """Worker processes for one task, and the shared memory between them and this process."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings, workers: int, start_method: str) -> None:
        self._task, self._algorithm, self._settings = task, algorithm, settings
        self._shared = SharedDirectory()
        self.directory: Path = self._shared.path
        self.workers = [WorkerHandle(f"worker{n}", self.directory, start_method) for n in range(workers)]
        # A finalizer and not `__del__`: it also runs where the interpreter ends and does not close the pool.
        # It is given the parts and not the pool, which it would keep alive.
        self._cleanup = weakref.finalize(self, _shut, os.getpid(), self.workers, self._shared)
        for worker in self.workers:
            self.replace(worker)

        self._sent_boxes: dict[int, Outbox] = {}
        self._free_boxes: list[Outbox] = []
        self._box_numbers = itertools.count()

    def replace(self, worker: WorkerHandle) -> None:
        """Start a worker's process, or a new one in its place."""
        device = share(self._settings.device, self.workers.index(worker))
        worker.start(self._task, self._algorithm, self._settings.replace(device=device), self.workers)

    def give(self, worker: WorkerHandle, work: Work[Any]) -> bool:
        """Give a worker something to do; say whether it took it."""
        if not worker.is_alive:
            self.replace(worker)  # it ended without work, so nobody is to blame
        return worker.give(work)

    def send(self, message: Message, exchange: int) -> Sent:
        """Write the message of an exchange; each of a round has a box of its own, so that new workers find them all."""
        if exchange not in self._sent_boxes:
            self._sent_boxes[exchange] = Outbox(self.directory, f"down{exchange}")
        return Sent(self._sent_boxes[exchange].write(message.vectors), message.scalars)

    def share(self, tensors: Mapping[str, Tensor]) -> Given:
        """Write what all pieces of a computation are given."""
        box = self._free_boxes.pop() if self._free_boxes else self._new_box()
        return Given(box, box.write(tensors))

    def _new_box(self) -> Outbox:
        return Outbox(self.directory, f"given{next(self._box_numbers)}")

    def release(self, shared: Given) -> None:
        """Let the box be written again."""
        self._free_boxes.append(shared.box)

    def wait(self, workers: Collection[WorkerHandle], seconds: float) -> list[WorkerHandle]:
        """Wait for an answer, or for the end of a pipe."""
        pipes = {worker.pipe: worker for worker in workers}
        ready = multiprocessing.connection.wait(list(pipes), seconds)  # type: ignore[arg-type]
        return [pipes[pipe] for pipe in ready]  # type: ignore[index]

    def has_answered(self, worker: WorkerHandle) -> bool:
        """Say whether an answer lies in the pipe."""
        return worker.pipe is not None and worker.pipe.poll()

    def take(self, worker: WorkerHandle, work: Work[T]) -> Outcome[T]:
        """Return what a worker has to say of its work."""
        return worker.take(work)

    def kill(self, worker: WorkerHandle) -> None:
        """End a worker's process at once."""
        worker.kill()

    def steps(self) -> int:
        """Return how many local steps the workers have taken."""
        return sum(worker.steps.taken for worker in self.workers)

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
