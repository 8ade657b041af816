"""Pieces of work for whichever worker is free, and what comes of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import Tensor

from flatfed.core.errors import ConfigError, EngineError, FlatfedError
from flatfed.core.method.engine import Item, Job, Reply, WorkFunction, no_reply
from flatfed.engines.in_process import label

T = TypeVar("T")


class Work(Generic[T]):
    """One piece of work; `T` is what comes of it."""

    label: str
    seconds: float | None = None
    """How long it may take, from when the worker begins with it; None: as long as it takes."""

    def parts(self) -> Sequence[Work[T]]:
        """Return works that come to the same, to be tried instead of one that is out of time; none where it is one."""
        return ()

    def no_result(self, seconds: float | None = None) -> T:
        """Return what stands for the result of a work that is out of its own time, or of the `seconds` for all."""
        raise NotImplementedError


class TrainWork(Work[list[Reply]]):
    """Clients of an exchange that are trained together: one, or a vectorised group.

    `held` is how the pool finds what was sent to all in this exchange and in the round's earlier ones.
    """

    def __init__(self, held: Sequence[Any], jobs: list[Job], client_timeout: float | None) -> None:
        self.held, self.jobs, self.client_timeout = tuple(held), jobs, client_timeout
        if client_timeout is not None:
            # The work of a group is interwoven: only all of it has a time.
            self.seconds = client_timeout * len(jobs)
        names = ", ".join(str(job.client) for job in jobs)
        self.label = f"client {names}" if len(jobs) == 1 else f"one of the clients {names}"

    def parts(self) -> Sequence[TrainWork]:
        """Return the clients of a group one by one, so that only those that hang are given up."""
        if len(self.jobs) == 1:
            return ()
        return [TrainWork(self.held, [job], self.client_timeout) for job in self.jobs]

    def no_result(self, seconds: float | None = None) -> list[Reply]:
        """Return replies that say that there are none."""
        bound = self.client_timeout if seconds is None else seconds
        assert bound is not None
        return [no_reply(job, bound) for job in self.jobs]


class ComputeWork(Work[tuple[int, dict[str, Tensor]]]):
    """A piece of work for one item of a computation; `given` is how the pool finds what all pieces are given."""

    def __init__(self, given: Any, piece: WorkFunction, number: int, item: Item) -> None:
        self.given, self.piece, self.number, self.item = given, piece, number, item
        self.label = label(piece, item)


class Computation:
    """The items of a computation that are still to do, and what has been done meanwhile."""

    def __init__(self, given: Any, piece: WorkFunction, items: Sequence[Item]) -> None:
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


@dataclass(frozen=True)
class Begun:
    """The worker is ready and begins with the clients: from now on their time counts."""


@dataclass(frozen=True)
class WorkResult(Generic[T]):
    """The work is done."""

    value: T


@dataclass(frozen=True)
class Failed:
    """The work raised an error, which may say itself what failed."""

    error: str
    trace: str
    says_who: bool = False
    is_mistake: bool = False

    @classmethod
    def of(cls, error: Exception, trace: str, computes: bool) -> Failed:
        """Return an error of a worker as an answer; `computes` says that no client was at work."""
        if isinstance(error, EngineError):
            return cls(str(error), trace, says_who=True)
        if isinstance(error, ConfigError):
            if computes:  # a mistake in what was asked for, as it would be in this process
                return cls(str(error), "", is_mistake=True)
            return cls(f"{type(error).__name__}: {error}", "")
        return cls(f"{type(error).__name__}: {error}", trace)

    def error_of(self, work: Work[Any]) -> FlatfedError:
        """Return an error that names the work and carries the worker's traceback."""
        if self.is_mistake:
            return ConfigError(self.error)
        error = EngineError(self.error if self.says_who else f"{work.label} failed: {self.error}")
        error.add_note(self.trace)
        return error


@dataclass(frozen=True)
class Died:
    """The worker is gone; `is_blamed` says whether its work may have been the reason."""

    how: str
    is_blamed: bool = True


Outcome = Begun | WorkResult[T] | Failed | Died


def result_or_error(outcome: WorkResult[T] | Failed, work: Work[T]) -> T:
    """Return what came of a work; a failure becomes an error."""
    if isinstance(outcome, Failed):
        raise outcome.error_of(work)
    return outcome.value
