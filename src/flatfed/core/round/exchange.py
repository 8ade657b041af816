"""One exchange: send, collect, check and count; what a method's `ask` does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flatfed.core.errors import FlatfedError
from flatfed.core.method.messages import SCALAR_BYTES, Message
from flatfed.core.method.server import Replies
from flatfed.core.method.state import State
from flatfed.core.round.engine import Held, Job, Reply, together
from flatfed.core.round.reply_checks import NOT_FINITE, Expectation

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
    refused: list[dict[str, Any]] = field(default_factory=list)
    attempts: int = 0
    taken: list[Reply] = field(default_factory=list)
    seconds: dict[int, float] = field(default_factory=dict)
    """Of each client's local work in the attempt that counts, all its exchanges together."""

    def sent(self, message: Message, personal: Message) -> None:
        """Count what goes down to a client."""
        self.bytes_down += message.nbytes + personal.nbytes + ENVELOPE_DOWN

    def received(self, reply: Reply) -> None:
        """Count what came up, good or not."""
        self.bytes_up += reply.message.nbytes + ENVELOPE_UP + SCALAR_BYTES * len(reply.watch)
        self.backprops += reply.backprops

    def took_part(self, replies: list[Reply], seconds: dict[int, float]) -> None:
        """Note whose replies the round goes on with, and how long each of these clients has worked."""
        self.taken, self.seconds = replies, seconds

    def client_seconds(self) -> float | None:
        """Mean time of a client's local work; None where no client took part."""
        return sum(self.seconds.values()) / len(self.seconds) if self.seconds else None

    def train_loss(self) -> float | None:
        """Mean training loss over the clients, weighted by their examples; None where no step was taken."""
        told = [(reply.loss, reply.samples) for reply in self.taken if reply.loss is not None]
        total = sum(samples for _, samples in told)
        return sum(loss * samples for loss, samples in told) / total if total else None

    def watch(self) -> dict[str, float]:
        """Return how far clients went on average, and the numbers that they want to see: means over those that told."""
        drifts = [reply.drift for reply in self.taken]
        found = {"divergence": sum(drifts) / len(drifts)} if drifts else {}
        names = dict.fromkeys(name for reply in self.taken for name in reply.watch)
        told = {name: [reply.watch[name] for reply in self.taken if name in reply.watch] for name in names}
        return found | {name: sum(values) / len(values) for name, values in told.items()}


class Courier:
    """Carries the exchanges of one attempt at a round: the `ask` that a method calls."""

    def __init__(self, federation: Federation, cohort: list[int], tally: Tally) -> None:
        self.federation, self.cohort, self.tally = federation, cohort, tally
        self.exchange = 0
        self.held = Held[Message]()  # by the clients, to whom replies refer: what was sent before, too
        self.kept: dict[int, State] = {}
        self.seconds: dict[int, float] = {}
        self.replies: Replies | None = None

    def __call__(self, message: Message, expect: tuple[str, ...] | None = None) -> Replies:
        """Send, collect, check; return the good replies in client order or raise `TooFewReplies`."""
        fed = self.federation
        fresh = (message | Message.of(fed.server.buffers)).copy()
        sent = together(self.held.receive(fed.round, self.exchange, fresh))
        before, asked = len(self.tally.refused), len(self.cohort)
        good = self._collect(fresh, sent, fed.method.uploads() if expect is None else expect)
        if len(good) < fed.settings.min_replies:
            self.tally.took_part([], {})
            raise self._too_few(good, asked, self.tally.refused[before:])
        self.cohort = [reply.client for reply in good]
        self.kept.update({r.client: r.kept for r in good if r.kept is not None})
        self.exchange += 1
        self.seconds = {reply.client: self.seconds.get(reply.client, 0.0) + reply.seconds for reply in good}
        self.tally.took_part(good, self.seconds)
        self.replies = Replies(good, sent, fed.method.uniform or fed.settings.weighting == "uniform")
        return self.replies

    def _too_few(self, good: list[Reply], asked: int, refused: list[dict[str, Any]]) -> TooFewReplies:
        fed = self.federation
        reasons = "; ".join(f"client {entry['client']}: {entry['reason']}" for entry in refused[-3:])
        text = f"round {fed.round + 1}: {len(good)} good replies of {asked}, {fed.settings.min_replies} needed"
        overflowed = bool(refused) and all(entry["reason"].endswith(NOT_FINITE) for entry in refused)
        return TooFewReplies(text + (f" ({reasons})" if reasons else ""), overflowed and not good)

    def job(self, client: int, fresh: Message) -> Job:
        """Make a client's job, and count what goes down with it."""
        fed = self.federation
        kept = self.kept[client].copy() if client in self.kept else fed.clients.read(client)
        personal = fed.method.personal(fed.server, client)
        self.tally.sent(fresh, personal)
        return Job(client, fed.round, self.exchange, fed.server.lr, kept, personal, fed.shows_models)

    def _collect(self, fresh: Message, sent: Message, names: tuple[str, ...]) -> list[Reply]:
        fed = self.federation
        shapes = {name: len(fed.server.w) for name in names}
        shapes |= {name: len(vector) for name, vector in fed.server.buffers.items()}
        numbers = fed.method.upload_numbers if names == fed.method.uploads() else ()
        expected = Expectation(
            fed.round,
            self.exchange,
            frozenset(self.cohort),
            shapes,
            fed.server.w,
            fed.settings.max_update_norm,
            numbers,
        )
        good: dict[int, Reply] = {}
        for reply in fed.engine.exchange(fresh, CohortJobs(self, fresh)):
            self.tally.received(reply)
            fault = expected.fault(reply, sent, set(good))
            if fault is None:
                good[reply.client] = reply
            else:
                self.tally.refused.append({"client": reply.client, "reason": fault})
        return [good[client] for client in sorted(good)]


class CohortJobs:
    """The jobs of a cohort, each made when the engine asks for it: states of clients still to come stay on disk.

    Clients with the most examples come first, so that no worker begins a long job when the others are done.
    """

    def __init__(self, courier: Courier, fresh: Message) -> None:
        self._courier, self._fresh = courier, fresh
        task = courier.federation.task
        self._clients = sorted(courier.cohort, key=lambda client: (-len(task.examples(client)), client))

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Job]:
        return (self._courier.job(client, self._fresh) for client in self._clients)
