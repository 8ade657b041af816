"""One worker process as the server sees it: started, given commands, heard, ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.task.task import Task
from flatfed.engines.pool.work import Died, Outcome, T, Work, WorkResult
from flatfed.engines.processes.arena import Inbox, Outbox
from flatfed.engines.processes.commands import Answer, Done, command_of, result_of
from flatfed.engines.processes.shared_steps import SharedSteps
from flatfed.engines.processes.worker import Parent, serve
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
        self._directory, self.steps = directory, SharedSteps(directory, name)
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
        command = command_of(work, self.outbox)
        try:
            self.pipe.send(command)
        except OSError:
            return False
        return True

    def take(self, work: Work[T]) -> Outcome[T]:
        """Return what the worker says of its work, or that it has died instead."""
        assert self.pipe is not None
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError):
            return Died(f"exit code {self._exit_code()}")
        if isinstance(answer, Done):
            return WorkResult(result_of(work, answer, self.inbox))
        return answer

    def _exit_code(self) -> int | None:
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
