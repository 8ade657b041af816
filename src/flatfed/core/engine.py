"""Where clients run: the interface between the round loop and an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from flatfed.core.messages import Message
from flatfed.core.state import State


@dataclass(frozen=True)
class Job:
    """One client's work in one exchange."""

    client: int
    round: int
    exchange: int
    lr: float
    kept: State
    personal: Message = field(default_factory=Message)
    shows_model: bool = False
    """The reply is to hold the client's model: for measurements, never in a federation."""


@dataclass(frozen=True)
class Reply:
    """What came back from a client; `kept` is its new state where the engine keeps it for the client."""

    client: int
    round: int
    exchange: int
    message: Message
    samples: int
    steps: int
    backprops: int
    loss: float | None
    kept: State | None = None
    watch: Mapping[str, float] = field(default_factory=dict)
    drift: float = 0.0
    """Distance of the client's model from the one it received, over the shared part."""
    model: Tensor | None = None
    """The shared part of the client's model after its local steps, where the job asks for it."""


class Jobs(Protocol):
    """The jobs of an exchange: how many there are is known, each is made when it is asked for."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __iter__(self) -> Iterator[Job]:
        """Yield them, the longest first."""
        ...


Item = tuple[Any, ...]
Piece = Callable[..., Mapping[str, Tensor]]
"""A function of a module: `piece(trainer, given, *item)` to named tensors, the same whoever runs it."""


class Engine(Protocol):
    """Runs clients and computations; replies and results may come back in any order."""

    @property
    def gaps(self) -> bool:
        """Say whether computations go on while clients are trained, wherever a worker has nothing else to do."""
        ...

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Give `message` (and each job's own part) to the clients and yield their replies as they arrive.

        A job is taken when it can be run: the states of clients still to come need not be in memory.
        """
        ...

    def compute(
        self, piece: Piece, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Do a piece of work for every item and yield each item's number with its result, as they come.

        The work is done when the results are asked for, or before, in the gaps between clients. The tensors that are
        `given` to every piece must not change until then.
        """
        ...

    def close(self) -> None:
        """End whatever the engine started."""
        ...
