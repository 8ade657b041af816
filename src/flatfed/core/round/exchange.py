"""One exchange, what a method's `ask` does: send, collect, check and count; a bad reply is rejected."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from flatfed.core.errors import FlatfedError
from flatfed.core.method.engine import Held, Job, Reply, together
from flatfed.core.method.messages import SCALAR_BYTES, Message
from flatfed.core.method.server import Replies
from flatfed.core.method.state import State
from flatfed.core.method.vectors import is_finite, norm
from flatfed.core.model.layout import COUNTERS
from flatfed.core.round.step_count import step_count

if TYPE_CHECKING:
    from flatfed.core.round.federation import Federation


NOT_FINITE = "not finite"
TWICE = "client answered twice"

SPARE_NUMBERS = 256
"""How many numbers a reply may hold beside those that its method declares."""


@dataclass(frozen=True)
class ReplyFault:
    """Why a reply is rejected; `overflow` where its numbers are not finite, which may mean that the run diverges."""

    reason: str
    overflow: bool = False


@dataclass(frozen=True)
class Expectation:
    """What a good reply of this exchange looks like."""

    round: int
    exchange: int
    samples: Mapping[int, int]
    """The clients that were asked, and how many examples each holds."""
    shapes: dict[str, int]
    like: Tensor
    max_update_norm: float | None = None
    numbers: tuple[str, ...] = ()
    attempt: int = 0

    @functools.cached_property
    def max_bytes(self) -> int:
        """Most bytes that a reply may have: the vectors of a good one, and some numbers."""
        entries = {name: _dtype(name, self.like).itemsize for name in self.shapes}
        vectors = sum(size * entries[name] for name, size in self.shapes.items())
        return vectors + SCALAR_BYTES * (len(self.numbers) + SPARE_NUMBERS)

    def fault(self, reply: Reply, sent: Message, answered: Collection[int]) -> ReplyFault | None:
        """Return why the reply is rejected, or None when it is good."""
        reason = self._origin(reply, answered) or self._form(reply)
        if reason:
            return ReplyFault(reason)
        # Before the norm: NaN lies above no bound, and would pass.
        endless = _not_finite(reply)
        if endless:
            return ReplyFault(f"{endless} is {NOT_FINITE}", overflow=True)
        reason = self._size(reply, sent)
        return ReplyFault(reason) if reason else None

    def _origin(self, reply: Reply, answered: Collection[int]) -> str | None:
        if not self.is_answer(reply):
            return self._strange(reply)
        if reply.client in answered:
            return TWICE
        return reply.missing or None

    def is_answer(self, reply: Reply) -> bool:
        """Say whether the reply is a client's answer in this very exchange, whatever it holds."""
        moment = reply.round, reply.attempt, reply.exchange
        return moment == (self.round, self.attempt, self.exchange) and reply.client in self.samples

    def _strange(self, reply: Reply) -> str:
        if reply.client not in self.samples:
            return "client was not asked"
        if (reply.round, reply.exchange) == (self.round, self.exchange):
            return f"answers attempt {reply.attempt + 1} at the round, not {self.attempt + 1}"
        return f"answers round {reply.round}.{reply.exchange}, not {self.round}.{self.exchange}"

    def _form(self, reply: Reply) -> str | None:
        """Say what is wrong with the names, shapes and types of a reply, or with its size in bytes."""
        reason = self._names(reply.message) or self._shapes(reply.message)
        size = bytes_up(reply)
        if size <= self.max_bytes:
            return reason
        oversized = f"{size:,} bytes, above the bound {self.max_bytes:,}"
        return f"{oversized}: {reason}" if reason else oversized

    def _names(self, message: Message) -> str | None:
        missing = (self.shapes.keys() - message.vectors.keys()) | (set(self.numbers) - message.scalars.keys())
        extra = message.vectors.keys() - self.shapes.keys()
        faults = []
        if missing:
            faults.append(f"lacks {', '.join(sorted(missing))}")
        if extra:
            faults.append(f"has unexpected {', '.join(sorted(extra))}")
        return " and ".join(faults) or None

    def _shapes(self, message: Message) -> str | None:
        for name, size in self.shapes.items():
            vector = message.vectors[name]
            if tuple(vector.shape) != (size,):
                return f"{name} has shape {tuple(vector.shape)}, not ({size},)"
            dtype = _dtype(name, self.like)
            if vector.dtype != dtype:
                return f"{name} is {vector.dtype}, not {dtype}"
        return None

    def _size(self, reply: Reply, sent: Message) -> str | None:
        """Say what is wrong with the number of examples, or with the length of the update."""
        held = self.samples[reply.client]
        if reply.samples != held:
            return f"claims {reply.samples} samples, but holds {held}"
        if self.max_update_norm is None or "w" not in reply.message:
            return None
        length = norm(reply.message.w - sent.w)
        if length > self.max_update_norm:
            return f"update has norm {length:.4g}, above the bound {self.max_update_norm:g}"
        return None


def _dtype(name: str, like: Tensor) -> torch.dtype:
    """Return the type of a vector in a good reply."""
    return torch.int64 if name == COUNTERS else like.dtype


def _not_finite(reply: Reply) -> str | None:
    """Return what in a reply is not finite."""
    for name, vector in reply.message.vectors.items():
        if not is_finite(vector):
            return name
    if not all(math.isfinite(number) for number in reply.message.scalars.values()):
        return "a scalar"
    if reply.loss is not None and not math.isfinite(reply.loss):
        return "loss"
    return None


class Answers:
    """The replies of one exchange, in any order of arrival: who has answered well, and what is wrong with the others.

    The same answer once more is rejected, and the client counts once. Of two different answers neither counts: which of
    them came first is chance.
    """

    def __init__(self, expected: Expectation, sent: Message) -> None:
        self._expected, self._sent = expected, sent
        self._good: dict[int, Reply] = {}
        self._bad: list[tuple[Reply, ReplyFault]] = []
        self._first: dict[int, Reply] = {}
        self._contradictory: set[int] = set()

    def take(self, reply: Reply) -> None:
        """Check a reply when it comes."""
        fault = self._expected.fault(reply, self._sent, self._first)
        if fault is None:
            self._good[reply.client] = reply
        else:
            self._bad.append((reply, fault))
        if self._expected.is_answer(reply):
            self._compare(reply)

    def _compare(self, reply: Reply) -> None:
        """Compare an answer with the client's first one."""
        first = self._first.setdefault(reply.client, reply)
        if first is not reply and _content(first) != _content(reply):
            self._contradictory.add(reply.client)

    def good(self) -> list[Reply]:
        """Return the good replies, in client order."""
        return [self._good[client] for client in sorted(self._good) if client not in self._contradictory]

    def faults(self) -> list[tuple[int, ReplyFault]]:
        """Return what is wrong with the others, in client order."""
        faults = [(reply.client, self._final(reply, fault)) for reply, fault in self._bad]
        faults += [(client, ReplyFault(TWICE)) for client in self._good if client in self._contradictory]
        faults += [(client, ReplyFault("no reply")) for client in self._silent()]
        return sorted(faults, key=lambda entry: (entry[0], entry[1].reason))

    def _silent(self) -> set[int]:
        """Return the clients that were asked and of which nothing came."""
        heard = {reply.client for reply, _ in self._bad}
        return self._expected.samples.keys() - heard - self._good.keys()

    def _final(self, reply: Reply, fault: ReplyFault) -> ReplyFault:
        """Return the fault of a reply now that all have come: contradictory answers have the same one."""
        if reply.client in self._contradictory and self._expected.is_answer(reply):
            return ReplyFault(TWICE)
        return fault


def _content(reply: Reply) -> tuple[Any, ...]:
    """Return all that an answer says, for a comparison; how long it took is not the client's word."""
    kept = Message.of(reply.kept.tensors() if reply.kept else {})
    numbers = reply.samples, reply.steps, reply.backprops, reply.loss, reply.drift
    return reply.message.to_bytes(), kept.to_bytes(), numbers, dict(reply.watch), reply.missing


def bytes_up(reply: Reply) -> int:
    """Return how many bytes a client's message and the numbers that it watches have."""
    return reply.message.nbytes + SCALAR_BYTES * len(reply.watch)


ENVELOPE_DOWN = 2 * SCALAR_BYTES  # round, learning rate
ENVELOPE_UP = 5 * SCALAR_BYTES  # examples, steps, backprops, loss, drift


class TooFewReplies(FlatfedError):
    """A round did not get the replies it needs; `diverged` if every one that came had overflowed."""

    def __init__(self, message: str, diverged: bool) -> None:
        super().__init__(message)
        self.diverged = diverged


@dataclass
class Tally:
    """What one round, with all its attempts, really exchanged and ran."""

    bytes_down: int = 0
    bytes_up: int = 0
    backprops: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)
    attempts: int = 0
    taken: list[Reply] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)
    """Of each client's local work in the attempt that counts, all its exchanges together."""

    def sent(self, message: Message, personal: Message) -> None:
        """Count what goes down to a client."""
        self.bytes_down += message.nbytes + personal.nbytes + ENVELOPE_DOWN

    def received(self, reply: Reply) -> None:
        """Count what came up, good or not."""
        if reply.missing:
            return
        self.bytes_up += bytes_up(reply) + ENVELOPE_UP
        self.backprops += reply.backprops

    def took_part(self, replies: list[Reply], seconds: dict[int, float]) -> None:
        """Note whose replies the round goes on with, and how long each of these clients has worked."""
        self.taken, self.seconds = replies, seconds

    def client_seconds(self) -> float | None:
        """Mean time of a client's local work; None where no client took part."""
        return sum(self.seconds.values()) / len(self.seconds) if self.seconds else None

    def train_loss(self) -> float | None:
        """Mean training loss over the clients, weighted by their examples; None where no step was taken."""
        losses = [(reply.loss, reply.samples) for reply in self.taken if reply.loss is not None]
        total = sum(samples for _, samples in losses)
        return sum(loss * samples for loss, samples in losses) / total if total else None

    def watch(self) -> dict[str, float]:
        """Return how far clients went, and the numbers that they watch: means over the clients that gave them."""
        series: dict[str, list[float]] = {}
        if self.taken:
            series["divergence"] = [reply.drift for reply in self.taken]
        watched: dict[str, list[float]] = {}
        for reply in self.taken:
            for name, value in reply.watch.items():
                watched.setdefault(name, []).append(value)
        return {name: sum(values) / len(values) for name, values in (series | watched).items()}


class Courier:
    """Carries the exchanges of one attempt at a round: the `ask` that a method calls."""

    def __init__(self, federation: Federation, cohort: list[int], tally: Tally, attempt: int = 0) -> None:
        self.federation, self.cohort, self.tally, self.attempt = federation, cohort, tally, attempt
        self.exchange = 0
        self.held = Held[Message]()  # by the clients, to whom replies refer: what was sent before, too
        self.kept: dict[int, State] = {}
        self.seconds: dict[int, float] = {}
        self.replies: Replies | None = None

    def __call__(self, message: Message, expect: tuple[str, ...] | None = None) -> Replies:
        """Send, collect, check; return the good replies in client order or raise `TooFewReplies`."""
        fed = self.federation
        # A copy: methods change what they keep in place, and replies are compared with what was really sent.
        fresh = (message | Message.of(fed.server.buffers)).copy()
        sent = together(self.held.receive(fed.round, self.exchange, fresh))
        uploads = fed.method.uploads() if expect is None else expect
        good, faults = self._collect(fresh, sent, uploads)
        if len(good) < fed.settings.min_replies:
            # What a failed attempt cost stays counted, but the row's means are not over its clients.
            self.tally.took_part([], {})
            raise self._too_few(good, faults)
        self._go_on_with(good)
        uniform = fed.method.uniform or fed.settings.weighting == "uniform"
        self.replies = Replies(good, sent, uniform)
        return self.replies

    def _go_on_with(self, good: list[Reply]) -> None:
        """Note whose replies count: only they are asked again, and only their states will be kept."""
        # States stay with the courier until the round is over: if it fails, every client has the one it had.
        self.cohort = [reply.client for reply in good]
        for reply in good:
            if reply.kept is not None:
                self.kept[reply.client] = reply.kept
        self.exchange += 1
        self.seconds = {reply.client: self.seconds.get(reply.client, 0.0) + reply.seconds for reply in good}
        self.tally.took_part(good, self.seconds)

    def _too_few(self, good: list[Reply], faults: list[tuple[int, ReplyFault]]) -> TooFewReplies:
        fed = self.federation
        text = f"round {fed.round + 1}: {len(good)} good replies of {len(self.cohort)}"
        text += f", {fed.settings.min_replies} needed"
        reasons = "; ".join(f"client {client}: {fault.reason}" for client, fault in faults[-3:])
        if reasons:
            text += f" ({reasons})"
        overflowed = bool(faults) and all(fault.overflow for _, fault in faults)
        return TooFewReplies(text, diverged=overflowed and not good)

    def job(self, client: int, fresh: Message) -> Job:
        """Make a client's job, and count what goes down with it."""
        fed = self.federation
        # What a client kept in an earlier exchange of the round is not in the store yet.
        kept = self.kept[client].copy() if client in self.kept else fed.clients.read(client)
        personal = fed.method.personal(fed.server, client)
        self.tally.sent(fresh, personal)
        return Job(client, fed.round, self.exchange, fed.server.lr, kept, personal, fed.shows_models, self.attempt)

    def _collect(
        self, fresh: Message, sent: Message, names: tuple[str, ...]
    ) -> tuple[list[Reply], list[tuple[int, ReplyFault]]]:
        """Return the good replies and what was wrong with the others, both in client order."""
        answers, steps = Answers(self._expected(names), sent), step_count()
        if steps is not None:
            steps.begin(self._steps())
        for reply in self.federation.engine.exchange(fresh, CohortJobs(self, fresh)):
            if steps is not None:
                steps.replied(reply.steps)
            # Before it is checked: a reply that is rejected has crossed, and was computed, as well.
            self.tally.received(reply)
            answers.take(reply)
        good, faults = answers.good(), answers.faults()
        self.tally.rejected += [{"client": client, "reason": fault.reason} for client, fault in faults]
        return good, faults

    def _steps(self) -> int:
        """Return how many local steps the clients take together."""
        settings, samples = self.federation.settings, self.federation.task.samples
        if settings.batch_size is None:
            return settings.local_epochs * len(self.cohort)
        return settings.local_epochs * sum(-(-samples(client) // settings.batch_size) for client in self.cohort)

    def _expected(self, names: tuple[str, ...]) -> Expectation:
        fed = self.federation
        shapes = {name: len(fed.server.w) for name in names}
        shapes |= {name: len(vector) for name, vector in fed.server.buffers.items()}
        numbers = fed.method.upload_numbers if names == fed.method.uploads() else ()
        return Expectation(
            fed.round,
            self.exchange,
            {client: fed.task.samples(client) for client in self.cohort},
            shapes,
            fed.server.w,
            fed.settings.max_update_norm,
            numbers,
            self.attempt,
        )


class CohortJobs:
    """The jobs of a cohort, each made when the engine asks for it: states of clients still to come stay on disk.

    Clients with the most examples come first, so that no worker begins a long job when the others are done.
    """

    def __init__(self, courier: Courier, fresh: Message) -> None:
        self._courier, self._fresh = courier, fresh
        task = courier.federation.task
        # Ties are broken by number: which clients are vectorised together must not depend on anything else.
        self._clients = sorted(courier.cohort, key=lambda client: (-task.samples(client), client))

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Job]:
        return (self._courier.job(client, self._fresh) for client in self._clients)
