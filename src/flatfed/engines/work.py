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


class TrainWork(Work[Reply]):
    """One client of an exchange."""

    def __init__(self, common: Header, scalars: dict[str, float], job: Job) -> None:
        self.common, self.scalars, self.job = common, scalars, job
        self.label = f"client {job.client}"

    def command(self, outbox: Outbox) -> Command:
        """Write the client's own part: its personal message and its state."""
        job = self.job
        own = outbox.write(prefixed("personal", job.personal.vectors) | prefixed("kept", job.kept.tensors()))
        common, scalars = self.common, self.scalars
        return Train(job.client, job.round, job.exchange, job.lr, common, scalars, own, job.personal.scalars)

    def result(self, done: Done, inbox: Inbox) -> Reply:
        """Return the client's reply and new state."""
        tensors = {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}
        message, job = Message.of(group("vector", tensors), done.scalars), self.job
        return Reply(job.client, job.round, job.exchange, message, kept=State(group("kept", tensors)), **done.facts)


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
        error = EngineError(f"{work.label} failed: {answer.error}")
        error.add_note(answer.trace)
        raise error
    return answer
