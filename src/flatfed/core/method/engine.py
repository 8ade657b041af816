"""Where clients run: the interface between the round loop and an engine.

What an engine is handed in an exchange is what crosses, and what is counted: the message for all, each client's
personal part and a few numbers. What a client received earlier in the round it holds (`Held`); it is not handed over,
sent or counted again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor

from flatfed.core.errors import EngineError
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State

T = TypeVar("T")


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
    attempt: int = 0
    """Which attempt at the round this is: a late reply to one must not be taken for a reply to the next."""


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
    seconds: float = 0.0
    """How long the client's local work took, by the clock of the place where it ran.

    The engine's own measurement around the client: no part of what the client sends, so not counted as bytes.
    """
    missing: str = ""
    """Why there is no reply, where the engine has given up on the client: nothing has come from it."""
    attempt: int = 0


def failure(job: Job, reason: str) -> Reply:
    """Return what an engine hands over for a client from which nothing will come: an answer like any other."""
    where = job.client, job.round, job.exchange
    nothing = Message()
    return Reply(*where, nothing, samples=0, steps=0, backprops=0, loss=None, missing=reason, attempt=job.attempt)


def no_reply(job: Job, seconds: float) -> Reply:
    """Return what an engine hands over for a client that did not answer in time."""
    return failure(job, f"no reply within {seconds:g} s")


class Held(Generic[T]):
    """What a client holds in a round: what was sent to all in each of its exchanges so far.

    Exchange 0 of a round, or of another attempt at it, begins anew. Whoever is asked in a later exchange was asked in
    all before, so an engine may hold one of these for all its clients. Personal parts are for their exchange alone and
    are never held. What is held may be the messages or whatever finds them; `together` says how they are read.
    """

    def __init__(self) -> None:
        self._round, self._parts = -1, list[T]()

    def receive(self, round: int, exchange: int, part: T) -> list[T]:
        """Hold what is sent in an exchange, once however often it is received, and return all that is held."""
        if exchange and (round != self._round or exchange > len(self._parts)):
            raise EngineError(f"exchange {exchange} of round {round + 1} came without those before it")
        # Cut at its own place: a message that is received again, for another client, is held once.
        self._round, self._parts = round, [*self._parts[:exchange], part]
        return list(self._parts)


def together(messages: Iterable[Message]) -> Message:
    """Return what a client reads of the messages of a round so far: where names meet, the later one's."""
    return functools.reduce(Message.__or__, messages)


class Jobs(Protocol):
    """The jobs of an exchange: how many there are is known, each is made when it is asked for."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __iter__(self) -> Iterator[Job]:
        """Yield them, the longest first."""
        ...


Item = tuple[Any, ...]
WorkFunction = Callable[..., Mapping[str, Tensor]]
"""A function of a module: `piece(evaluator, given, *item)` to named tensors, the same whoever runs it."""


class Engine(Protocol):
    """Runs clients and computations; replies and results may come back in any order."""

    @property
    def gaps(self) -> bool:
        """Say whether computations go on while clients are trained, wherever a worker has nothing else to do."""
        ...

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        """Give `message` (and each job's own part) to the clients and yield their replies as they arrive.

        The message is what this exchange sends, no more; what the clients hold from the round's earlier exchanges is
        the engine's to keep (`Held`), and must not change until the round is over. The jobs say which exchange it is. A
        job is taken when it can be run: the states of clients still to come need not be in memory. A client that
        takes longer than `Settings.client_timeout` is given up, and has a reply that says so (`no_reply`). A client
        that cannot be reached has one too (`failure`). After `Settings.exchange_timeout` all that have not answered are
        given up.
        """
        ...

    def compute(
        self, piece: WorkFunction, given: Mapping[str, Tensor], items: Sequence[Item]
    ) -> Iterator[tuple[int, dict[str, Tensor]]]:
        """Do a piece of work for every item and yield each item's number with its result, as they come.

        The work is done when the results are asked for, or before, in the gaps between clients. The tensors that are
        `given` to every piece must not change until then.
        """
        ...

    def close(self) -> None:
        """End whatever the engine started."""
        ...


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(say: Callable[[str], None]) -> Iterator[None]:
    """Let `say` hear what the engines that run meanwhile have to say: workers that come and go."""
    token = _listener.set(say)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(text: str) -> bool:
    """Say something to whoever listens; say whether somebody does."""
    say = _listener.get()
    if say is not None:
        say(text)
    return say is not None
