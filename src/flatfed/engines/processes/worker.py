"""A worker process: waits for jobs on its pipe, runs them on its one model, answers through shared memory."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Job, together
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.round.trainer import Trainer
from flatfed.core.task.task import Task
from flatfed.engines.pool.work import Begun, Failed
from flatfed.engines.processes.arena import Inbox, Outbox, group, prefixed
from flatfed.engines.processes.commands import FACTS, Answer, Command, Compute, Done, ReplyNumbers, Train
from flatfed.engines.processes.shared_steps import SharedSteps
from flatfed.machine import STOP_SIGNALS, end_with_parent, keep_freed_memory

ORPHAN_SECONDS = 5.0
WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Parent:
    """The process that starts a worker; `waits` says whether the thread that does so lives as long as the process."""

    pid: int
    waits: bool

    @classmethod
    def here(cls) -> Parent:
        """Return this process as the parent of those that it starts now."""
        return cls(os.getpid(), threading.current_thread() is threading.main_thread())


def serve(
    pipe: Connection,
    inherited: list[Connection],
    parent: Parent,
    directory: str,
    name: str,
    task: Task,
    algorithm: Algorithm,
    settings: Settings,
) -> None:
    """Serve commands until the pipe closes, or the parent is gone."""
    _hear_signals()
    _watch(parent, directory)
    for end in inherited:
        # While a copy of the parent's end is open here, the pipe does not close when the parent is gone.
        end.close()
    # Sums over long vectors then have one order, the same as in the parent, and workers do not compete for cores.
    torch.set_num_threads(1)
    keep_freed_memory()
    worker = Worker(Path(directory), name, lambda: Trainer(task, algorithm, settings))
    if settings.client_timeout is not None:
        worker.tell = lambda: pipe.send(Begun())
    try:
        _answer_all(pipe, worker)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # If the parent was killed, nobody else will clean up.
        if _orphaned(parent):
            shutil.rmtree(directory, ignore_errors=True)


def _hear_signals() -> None:
    """Leave signals to the parent, which decides what becomes of the work; but a worker that is asked to end ends."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # The parent has held them back, since a forked process begins with the parent's handlers.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _watch(parent: Parent, directory: str) -> None:
    """End this process when the parent is gone, whatever it does then."""
    if parent.waits:
        # For code that lets no other thread run. The system goes by the thread, and not by the process, that started
        # this one; so a thread that ends before its process must not count.
        end_with_parent()
    threading.Thread(target=_end_with, args=(parent, directory), name="flatfed-watch", daemon=True).start()


def _end_with(parent: Parent, directory: str) -> None:
    # By its number, from the beginning: the parent may have died before this line.
    while os.getppid() == parent.pid:
        time.sleep(WATCH_SECONDS)
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(1)


def _answer_all(pipe: Connection, worker: Worker) -> None:
    """Answer command after command, until the parent says that there are no more."""
    while True:
        command: Command | None = pipe.recv()
        if command is None:
            return
        pipe.send(worker.answer(command))


def _orphaned(parent: Parent) -> bool:
    """Say whether the parent has died; its pipe closes a moment before its children get the signal."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    while os.getppid() == parent.pid and time.monotonic() < deadline:
        time.sleep(0.01)
    return os.getppid() != parent.pid


class Worker:
    """One model and the shared memory to and from the parent."""

    def __init__(self, directory: Path, name: str, make: Callable[[], Trainer]) -> None:
        self._make = make
        # One for each exchange, as each has its own file: a single one would map the files anew for every client.
        self._common: defaultdict[int, Inbox] = defaultdict(Inbox)
        self._own, self._given = Inbox(), Inbox()
        self._out, self._steps = Outbox(directory, f"{name}-up"), SharedSteps(directory, name)
        self.tell: Callable[[], None] = lambda: None
        """Called when clients begin: how long the worker took to get ready is not their time."""

    @functools.cached_property
    def trainer(self) -> Trainer:
        """The one model, made with the first command so that a failure is an answer like any other."""
        return self._make()

    def answer(self, command: Command) -> Answer:
        """Do one command; an error becomes an answer."""
        try:
            if isinstance(command, Train):
                return self._train(command)
            return self._compute(command)
        except Exception as error:
            return Failed.of(error, traceback.format_exc(), computes=isinstance(command, Compute))

    def _compute(self, command: Compute) -> Done:
        given = self._given.read(command.given)
        tensors = command.piece(self.trainer.evaluator, given, *command.item)
        return Done(self._out.write(tensors))

    def _train(self, command: Train) -> Done:
        jobs = self._jobs(command)
        tensors: dict[str, Tensor] = {}
        numbers: list[ReplyNumbers] = []
        trainer, message = self.trainer, self._message(command)
        self.tell()
        for place, reply in enumerate(trainer.run_together(message, jobs, self._steps.add)):
            tensors |= prefixed(f"{place}/vector", reply.message.vectors)
            tensors |= prefixed(f"{place}/kept", jobs[place].kept.tensors())
            if reply.model is not None:
                tensors[f"{place}/model"] = reply.model
            facts = {name: getattr(reply, name) for name in FACTS}
            numbers.append(ReplyNumbers(reply.message.scalars, facts))
        return Done(self._out.write(tensors), tuple(numbers))

    def _message(self, command: Train) -> Message:
        """Return what the clients hold of everyone's messages of the round."""
        messages = []
        for exchange, sent in enumerate(command.held):
            vectors = self._common[exchange].read(sent.vectors)
            messages.append(Message.of(vectors, sent.scalars))
        return together(messages)

    def _jobs(self, command: Train) -> list[Job]:
        own = self._own.read(command.own)
        jobs = []
        for place, (client, scalars) in enumerate(zip(command.clients, command.own_scalars, strict=True)):
            personal = Message.of(group(f"{place}/personal", own), scalars)
            # A copy: the client changes its state, and the box is the parent's.
            kept = State({name: tensor.clone() for name, tensor in group(f"{place}/kept", own).items()})
            where = command.round, command.exchange, command.lr
            jobs.append(Job(client, *where, kept, personal, command.shows_model, command.attempt))
        return jobs
