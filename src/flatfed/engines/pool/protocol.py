"""What a kind of worker must offer, so that work can be spread over it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from torch import Tensor

from flatfed.core.method.messages import Message
from flatfed.engines.pool.work import Outcome, Work

T = TypeVar("T")
W = TypeVar("W")
"""A worker; any object that can be a key of a dictionary."""


class WorkerPool(Protocol[W]):
    """Workers of one kind, and how things get to them and back."""

    @property
    def workers(self) -> Sequence[W]:
        """Return the workers that can be given work now; they may become more and fewer."""
        ...

    def send(self, message: Message, exchange: int) -> Any:
        """Put what an exchange of a round sends to all where workers find it, and return how they do."""
        ...

    def share(self, tensors: Mapping[str, Tensor]) -> Any:
        """Put what all pieces of a computation are given where workers find it, and return how they do."""
        ...

    def release(self, shared: Any) -> None:
        """Let go of what was shared: nobody reads it any more."""
        ...

    def give(self, worker: W, work: Work[Any]) -> bool:
        """Give a worker something to do; say whether it was there to take it."""
        ...

    def wait(self, workers: Collection[W], seconds: float) -> list[W]:
        """Wait until some of these workers have something to say, at most this long; a death is something too."""
        ...

    def has_answered(self, worker: W) -> bool:
        """Say whether a worker has something to say now."""
        ...

    def take(self, worker: W, work: Work[T]) -> Outcome[T]:
        """Return what a worker has to say of its work."""
        ...

    def replace(self, worker: W) -> None:
        """Have another worker in the place of one that is dead, or is to be."""
        ...

    def kill(self, worker: W) -> None:
        """End a worker at once, whatever it does; `give` or `replace` has another in its place."""
        ...

    def steps(self) -> int:
        """Return how many local steps the workers have taken, as far as they count them."""
        ...

    def close(self) -> None:
        """End the workers and free what was taken."""
        ...
