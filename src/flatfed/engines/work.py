"""Pieces of work for the pool: the parent's side of what a worker process serves."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from torch import Tensor

from flatfed.core.engine import Job, Reply
from flatfed.core.errors import EngineError
from flatfed.core.messages import Message
from flatfed.core.state import State
from flatfed.engines.arena import Header, Inbox, Outbox, group, prefixed
from flatfed.engines.worker import Answer, Calibrate, Command, Done, Failed, Measure, Train

T = TypeVar("T")


class Work(Generic[T]):
    """One piece of work for whichever worker is free."""

    label: str

    def command(self, outbox: Outbox) -> Command:
        """Write what the worker needs and return the command to send."""
        raise NotImplementedError

    def result(self, done: Done, inbox: Inbox) -> T:
        """Read what the worker wrote; copies, because it will write again."""
        raise NotImplementedError


class TrainWork(Work[list[Reply]]):
    """Clients of an exchange that are trained together: one, or a group in lockstep."""

    def __init__(self, common: Header, scalars: dict[str, float], jobs: list[Job]) -> None:
        self.common, self.scalars, self.jobs = common, scalars, jobs
        names = ", ".join(str(job.client) for job in jobs)
        self.label = f"client {names}" if len(jobs) == 1 else f"one of the clients {names}"

    def command(self, outbox: Outbox) -> Command:
        """Write the clients' own parts: their personal messages and their states."""
        first, own = self.jobs[0], dict[str, Tensor]()
        for place, job in enumerate(self.jobs):
            own |= prefixed(f"{place}/personal", job.personal.vectors)
            own |= prefixed(f"{place}/kept", job.kept.tensors())
        clients = tuple(job.client for job in self.jobs)
        own_scalars = tuple(job.personal.scalars for job in self.jobs)
        header, common = outbox.write(own), self.common
        return Train(clients, first.round, first.exchange, first.lr, common, self.scalars, header, own_scalars)

    def result(self, done: Done, inbox: Inbox) -> list[Reply]:
        """Return the clients' replies and new states."""
        tensors = {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}
        replies = []
        for place, (job, told) in enumerate(zip(self.jobs, done.told, strict=True)):
            message = Message.of(group(f"{place}/vector", tensors), told.scalars)
            kept = State(group(f"{place}/kept", tensors))
            replies.append(Reply(job.client, job.round, job.exchange, message, kept=kept, **told.facts))
        return replies


class MeasureWork(Work[tuple[tuple[str, int], dict[str, Tensor]]]):
    """One chunk of a test set."""

    def __init__(self, common: Header, test: str, first: int, count: int) -> None:
        self.common, self.test, self.first, self.count = common, test, first, count
        self.label = f"evaluation of {test} from example {first}"

    def command(self, outbox: Outbox) -> Command:
        """Say which examples."""
        return Measure(self.common, self.test, self.first, self.count)

    def result(self, done: Done, inbox: Inbox) -> tuple[tuple[str, int], dict[str, Tensor]]:
        """Return the chunk's test set and first example, and its sums."""
        return (self.test, self.first), {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}


class CalibrateWork(Work[tuple[int, dict[str, Tensor]]]):
    """One batch of the calibration sample."""

    def __init__(self, common: Header, number: int) -> None:
        self.common, self.number = common, number
        self.label = f"calibration batch {number}"

    def command(self, outbox: Outbox) -> Command:
        """Say which batch."""
        return Calibrate(self.common, self.number)

    def result(self, done: Done, inbox: Inbox) -> tuple[int, dict[str, Tensor]]:
        """Return the batch's number and its statistics."""
        return self.number, {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}


def done_or_error(answer: Answer, work: Work[Any]) -> Done:
    """Return a good answer; a failure becomes an error that names the work and carries the worker's traceback."""
    if isinstance(answer, Failed):
        error = EngineError(answer.error if answer.says_who else f"{work.label} failed: {answer.error}")
        error.add_note(answer.trace)
        raise error
    return answer
