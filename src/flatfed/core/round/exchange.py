"""One exchange, what a method's `ask` does: send, collect, check and count; a bad reply is rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import FlatfedError
from flatfed.core.method.engine import Held, Job, Reply, together
from flatfed.core.method.messages import SCALAR_BYTES, Message
from flatfed.core.method.round_memory import StoredTensors
from flatfed.core.method.server import Replies
from flatfed.core.method.state import State
from flatfed.core.round.answers import Answers, Received
from flatfed.core.round.expectation import Expectation, ReplyFault, bytes_up
from flatfed.core.round.step_count import step_count

if TYPE_CHECKING:
    from flatfed.core.round.federation import Federation


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
    """The replies that the round goes on with, without their messages: vectors are not kept for their numbers."""
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

    def took_part(self, replies: Sequence[Reply], seconds: dict[int, float]) -> None:
        """Note whose replies the round goes on with, and how long each of these clients has worked."""
        self.taken, self.seconds = [replace(reply, message=Message()) for reply in replies], seconds

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
        self.kept: dict[int, StoredTensors] = {}
        self.models: dict[int, StoredTensors] = {}
        self.seconds: dict[int, float] = {}
        self.replies: Replies | None = None

    def __call__(self, message: Message, expect: tuple[str, ...] | None = None) -> Replies:
        """Send, collect, check; return the good replies in client order or raise `TooFewReplies`."""
        fed = self.federation
        self.replies = None  # those to the question before are needed no more
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
        self.replies = Replies([received.reply for received in good], sent, uniform)
        return self.replies

    def _go_on_with(self, good: list[Received]) -> None:
        """Note whose replies count: only they are asked again, and only their states will be kept."""
        # States stay with the courier until the round is over: if it fails, every client has the one it had.
        replies = [received.reply for received in good]
        self.cohort = [reply.client for reply in replies]
        self.kept |= {received.reply.client: received.kept for received in good if received.kept is not None}
        self.models = {received.reply.client: received.model for received in good if received.model is not None}
        self.exchange += 1
        self.seconds = {reply.client: self.seconds.get(reply.client, 0.0) + reply.seconds for reply in replies}
        self.tally.took_part(replies, self.seconds)

    def _too_few(self, good: list[Received], faults: list[tuple[int, ReplyFault]]) -> TooFewReplies:
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
        kept = State(self.kept[client]).copy() if client in self.kept else fed.clients.read(client)
        personal = fed.method.personal(fed.server, client)
        self.tally.sent(fresh, personal)
        return Job(client, fed.round, self.exchange, fed.server.lr, kept, personal, fed.shows_models, self.attempt)

    def _collect(
        self, fresh: Message, sent: Message, names: tuple[str, ...]
    ) -> tuple[list[Received], list[tuple[int, ReplyFault]]]:
        """Return the good replies and what was wrong with the others, both in client order."""
        answers, steps = Answers(self._expected(names), sent, self.federation.memory), step_count()
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
        small = fed.method.uploads_per_tensor()
        shapes = {name: fed.server.tensors if name in small else len(fed.server.w) for name in names}
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
