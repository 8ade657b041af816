"""Pieces of work for the pool: the parent's side of what a worker process serves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from torch import Tensor

from flatfed.core.errors import ConfigError, EngineError, FlatfedError
from flatfed.core.method.engine import Item, Job, Reply, WorkFunction, no_reply
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.engines.arena import Header, Inbox, Outbox, group, prefixed
from flatfed.engines.in_process import label
from flatfed.engines.worker import Answer, Command, Compute, Done, Failed, Sent, Train

T = TypeVar("T")


class Work(Generic[T]):
    """One piece of work for whichever worker is free."""

    label: str
    seconds: float | None = None
    """How long it may take, from when the worker begins with it; None: as long as it takes."""

    def command(self, outbox: Outbox) -> Command:
        """Write what the worker needs and return the command to send."""
        raise NotImplementedError

    def result(self, done: Done, inbox: Inbox) -> T:
        """Read what the worker wrote; copies, because it will write again."""
        raise NotImplementedError

    def parts(self) -> Sequence[Work[T]]:
        """Return works that come to the same, to be tried instead of one that is out of time; none where it is one."""
        return ()

    def no_result(self) -> T:
        """Return what stands for the result of a work that is out of time."""
        raise NotImplementedError


class TrainWork(Work[list[Reply]]):
    """Clients of an exchange that are trained together: one, or a vectorised group."""

    def __init__(self, held: Sequence[Sent], jobs: list[Job], client_timeout: float | None) -> None:
        self.held, self.jobs, self.client_timeout = tuple(held), jobs, client_timeout
        if client_timeout is not None:
            # The work of a group is interwoven: only all of it has a time.
            self.seconds = client_timeout * len(jobs)
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
        where, shows = (first.round, first.exchange, first.lr), first.shows_model
        return Train(clients, *where, self.held, outbox.write(own), own_scalars, shows)

    def result(self, done: Done, inbox: Inbox) -> list[Reply]:
        """Return the clients' replies and new states."""
        tensors = {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}
        replies = []
        for place, numbers in enumerate(done.numbers):
            message = Message.of(group(f"{place}/vector", tensors), numbers.scalars)
            kept = State(group(f"{place}/kept", tensors))
            model = tensors.get(f"{place}/model")
            # Who answers what is the worker's word, and is checked as that.
            replies.append(Reply(message=message, kept=kept, model=model, **numbers.facts))
        return replies

    def parts(self) -> Sequence[TrainWork]:
        """Return the clients of a group one by one, so that only those that hang are given up."""
        if len(self.jobs) == 1:
            return ()
        return [TrainWork(self.held, [job], self.client_timeout) for job in self.jobs]

    def no_result(self) -> list[Reply]:
        """Return replies that say that there are none."""
        assert self.client_timeout is not None
        return [no_reply(job, self.client_timeout) for job in self.jobs]


class ComputeWork(Work[tuple[int, dict[str, Tensor]]]):
    """A piece of work for one item of a computation."""

    def __init__(self, given: Header, piece: WorkFunction, number: int, item: Item) -> None:
        self.given, self.piece, self.number, self.item = given, piece, number, item
        self.label = label(piece, item)

    def command(self, outbox: Outbox) -> Command:
        """Say what to do with what was given."""
        return Compute(self.given, self.piece, self.item)

    def result(self, done: Done, inbox: Inbox) -> tuple[int, dict[str, Tensor]]:
        """Return the item's number and its tensors."""
        return self.number, {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}


class Computation:
    """The items of a computation that are still to do, and what has been done meanwhile."""

    def __init__(self, given: Header, piece: WorkFunction, items: Sequence[Item]) -> None:
        self.todo = deque(ComputeWork(given, piece, number, item) for number, item in enumerate(items))
        self.results: list[tuple[int, dict[str, Tensor]]] = []
        self.error: FlatfedError | None = None

    def fail(self, error: FlatfedError) -> None:
        """Give up: a piece cannot be done."""
        self.todo.clear()
        self.error = error

    def works(self) -> Iterator[ComputeWork]:
        """Take what is to do, piece by piece."""
        while self.todo:
            yield self.todo.popleft()


def done_or_error(answer: Answer, work: Work[Any]) -> Done:
    """Return a good answer; a failure becomes an error that names the work and carries the worker's traceback."""
    if isinstance(answer, Done):
        return answer
    assert isinstance(answer, Failed)
    if answer.is_mistake:
        raise ConfigError(answer.error)
    error = EngineError(answer.error if answer.says_who else f"{work.label} failed: {answer.error}")
    error.add_note(answer.trace)
    raise error
