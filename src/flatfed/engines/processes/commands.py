"""What goes through the pipe between the server and a worker process: where vectors lie, and a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from flatfed.core.method.engine import Item, Job, Reply, WorkFunction
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.engines.pool.work import Begun, ComputeWork, Failed, T, TrainWork, Work
from flatfed.engines.processes.arena import Header, Inbox, Outbox, group, prefixed

Scalars = dict[str, float]
FACTS = ("client", "round", "exchange", "attempt", "samples", "steps", "backprops", "loss", "watch", "drift", "seconds")


@dataclass(frozen=True)
class Sent:
    """What one exchange sends to all: where its vectors lie, and its numbers."""

    vectors: Header
    scalars: Scalars


@dataclass(frozen=True)
class Train:
    """Run clients: they `held` everyone's messages of the round, `own` has their personal parts and states by place."""

    clients: tuple[int, ...]
    round: int
    exchange: int
    lr: float
    held: tuple[Sent, ...]
    own: Header
    own_scalars: tuple[Scalars, ...]
    shows_model: bool
    attempt: int


@dataclass(frozen=True)
class Compute:
    """Do a piece of work for one item, with the tensors in `given`."""

    given: Header
    piece: WorkFunction
    item: Item


@dataclass(frozen=True)
class ReplyNumbers:
    """The numbers of one client's reply."""

    scalars: Scalars
    facts: dict[str, Any]


@dataclass(frozen=True)
class Done:
    """An answer; `tensors` finds its vectors, `numbers` has those of each client that was trained."""

    tensors: Header
    numbers: tuple[ReplyNumbers, ...] = ()


Command = Train | Compute
Answer = Begun | Done | Failed


def command_of(work: Work[Any], outbox: Outbox) -> Command:
    """Write what the worker needs for a piece of work and return the command to send."""
    if isinstance(work, ComputeWork):
        return Compute(work.given.tensors, work.piece, work.item)
    assert isinstance(work, TrainWork)
    return _train_command(work.held, work.jobs, outbox)


def _train_command(held: Sequence[Sent], jobs: Sequence[Job], outbox: Outbox) -> Train:
    """Write the clients' own parts: their personal messages and their states."""
    first, own = jobs[0], dict[str, Tensor]()
    for place, job in enumerate(jobs):
        own |= prefixed(f"{place}/personal", job.personal.vectors)
        own |= prefixed(f"{place}/kept", job.kept.tensors())
    return Train(
        clients=tuple(job.client for job in jobs),
        round=first.round,
        exchange=first.exchange,
        lr=first.lr,
        held=tuple(held),
        own=outbox.write(own),
        own_scalars=tuple(job.personal.scalars for job in jobs),
        shows_model=first.shows_model,
        attempt=first.attempt,
    )


def result_of(work: Work[T], done: Done, inbox: Inbox) -> T:
    """Read what the worker wrote; copies, because it will write again."""
    tensors = {name: tensor.clone() for name, tensor in inbox.read(done.tensors).items()}
    result: Any
    if isinstance(work, ComputeWork):
        result = work.number, tensors
    else:
        result = _replies(done, tensors)
    return cast(T, result)


def _replies(done: Done, tensors: dict[str, Tensor]) -> list[Reply]:
    """Return the clients' replies and new states."""
    replies = []
    for place, numbers in enumerate(done.numbers):
        message = Message.of(group(f"{place}/vector", tensors), numbers.scalars)
        kept = State(group(f"{place}/kept", tensors))
        model = tensors.get(f"{place}/model")
        # Who answers what is the worker's word, and is checked as that.
        replies.append(Reply(message=message, kept=kept, model=model, **numbers.facts))
    return replies
