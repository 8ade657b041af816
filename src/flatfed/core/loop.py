"""The round loop: sample, exchange, check, update, evaluate, one history row.

One direction, no back and forth: `Federation.rounds()` yields a row per round; whoever iterates writes history
and checkpoints. Server state changes only between exchanges, so stopping between rows is always safe.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from flatfed.core.algorithm import Algorithm, Average
from flatfed.core.checks import NOT_FINITE, Expectation
from flatfed.core.engine import Engine, Job, Reply
from flatfed.core.errors import FlatfedError
from flatfed.core.messages import SCALAR_BYTES, Message
from flatfed.core.sampling import Sampler
from flatfed.core.server import Replies, Server
from flatfed.core.settings import Settings
from flatfed.core.state import State
from flatfed.core.store import ClientStore
from flatfed.core.task import Task
from flatfed.core.trainer import BUFFERS
from flatfed.core.vectors import is_finite, norm

Row = dict[str, Any]
Status = Literal["running", "finished", "diverged", "stopped", "interrupted", "failed"]
ENVELOPE_DOWN = 2 * SCALAR_BYTES  # round, learning rate
ENVELOPE_UP = 4 * SCALAR_BYTES  # examples, steps, backprops, loss


class TooFewReplies(FlatfedError):
    """A round did not get the replies it needs."""


@dataclass
class Tally:
    """What one round, with all its attempts, really exchanged and ran."""

    bytes_down: int = 0
    bytes_up: int = 0
    backprops: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)
    attempts: int = 0
    taken: list[Reply] = field(default_factory=list)

    def sent(self, message: Message, jobs: list[Job]) -> None:
        """Count what goes down to every client."""
        self.bytes_down += sum(message.nbytes + job.personal.nbytes + ENVELOPE_DOWN for job in jobs)

    def received(self, reply: Reply) -> None:
        """Count what came up, good or not."""
        self.bytes_up += reply.message.nbytes + ENVELOPE_UP
        self.backprops += reply.backprops

    @property
    def only_non_finite(self) -> bool:
        """Whether every reply that was refused had overflowed: the training diverged, nobody misbehaved."""
        return bool(self.refused) and all(entry["reason"].endswith(NOT_FINITE) for entry in self.refused)

    def train_loss(self) -> float | None:
        """Mean training loss over the clients, weighted by their examples; None where no step was taken."""
        told = [reply for reply in self.taken if not math.isnan(reply.loss)]
        total = sum(reply.samples for reply in told)
        return sum(reply.loss * reply.samples for reply in told) / total if total else None


class Courier:
    """Carries the exchanges of one attempt at a round: the `ask` that a method calls."""

    def __init__(self, federation: Federation, cohort: list[int], tally: Tally) -> None:
        self.federation, self.cohort, self.tally = federation, cohort, tally
        self.exchange = 0
        self.kept: dict[int, State] = {}
        self.replies: Replies | None = None

    def __call__(self, message: Message, expect: tuple[str, ...] | None = None) -> Replies:
        """Send, collect, check; return the good replies in client order or raise `TooFewReplies`."""
        fed = self.federation
        wired = message | Message(buffers=fed.server.buffers) if len(fed.server.buffers) else message
        jobs = [self._job(client) for client in self.cohort]
        self.tally.sent(wired, jobs)
        good = self._collect(wired, jobs, expect or fed.algorithm.uploads)
        if len(good) < fed.settings.min_replies:
            reasons = "; ".join(f"client {e['client']}: {e['reason']}" for e in self.tally.refused[-3:])
            raise TooFewReplies(
                f"round {fed.round}: {len(good)} good replies of {len(jobs)}, {fed.settings.min_replies} needed"
                + (f" ({reasons})" if reasons else "")
            )
        self.cohort = [reply.client for reply in good]
        self.kept.update({r.client: r.kept for r in good if r.kept is not None})
        self.exchange += 1
        self.tally.taken = good
        self.replies = Replies(good, message, fed.algorithm.uniform or fed.settings.weighting == "uniform")
        return self.replies

    def _job(self, client: int) -> Job:
        fed = self.federation
        kept = self.kept[client].copy() if client in self.kept else fed.clients.read(client)
        personal = fed.algorithm.personal(fed.server, client)
        return Job(client, fed.round, self.exchange, fed.server.lr, kept, personal)

    def _collect(self, message: Message, jobs: list[Job], names: tuple[str, ...]) -> list[Reply]:
        fed = self.federation
        shapes = {name: len(fed.server.w) for name in names}
        if len(fed.server.buffers):
            shapes[BUFFERS] = len(fed.server.buffers)
        expected = Expectation(
            fed.round,
            self.exchange,
            frozenset(self.cohort),
            shapes,
            fed.server.w,
            fed.settings.max_update_norm,
        )
        good: dict[int, Reply] = {}
        for reply in fed.engine.exchange(message, jobs):
            self.tally.received(reply)
            fault = expected.fault(reply, message, set(good))
            if fault is None:
                good[reply.client] = reply
            else:
                self.tally.refused.append({"client": reply.client, "reason": fault})
        return [good[client] for client in sorted(good)]


class Federation:
    """One run of a method on a task: its state, and the loop that moves it."""

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm,
        settings: Settings,
        sampler: Sampler,
        engine: Engine,
        server: Server,
        clients: ClientStore,
        records: ClientStore,
        average: Average | None = None,
        average_kept: State | None = None,
        round: int = 0,
    ) -> None:
        self.task, self.algorithm, self.settings, self.sampler, self.engine = (
            task,
            algorithm,
            settings,
            sampler,
            engine,
        )
        self.server, self.clients, self.records = server, clients, records
        self.average, self.average_kept = average, average_kept or State({})
        self.round = round
        self.status: Status = "running"
        self.reason = ""
        self._counters = task.layout().integer_mask()

    def rounds(self) -> Iterator[Row]:
        """Play the rounds that are left and yield a history row after each."""
        while self.status == "running":
            if self.round >= self.settings.rounds:
                self.status = "finished"
                return
            yield self._play()

    @property
    def evaluated(self) -> torch.Tensor:
        """The model that is evaluated: the average's, if there is one."""
        return self.average.evaluated(self.average_kept, self.server.w) if self.average else self.server.w

    def _play(self) -> Row:
        """Play one round and return its row."""
        started, tally, before = time.perf_counter(), Tally(), self.server.w.clone()
        self.server.round, self.server.lr = self.round, self._lr()
        try:
            courier = self._attempt(tally)
        except TooFewReplies as error:
            self.status, self.reason = ("diverged" if tally.only_non_finite else "stopped"), str(error)
            return self._row(tally, before, started)
        for client, kept in courier.kept.items():
            self.clients.write(client, kept)
        self._average_buffers(courier.replies)
        if self.average:
            self.average.capture(self.average_kept, before, self.server.w, self.round, self.settings.rounds)
        row = self._row(tally, before, started)
        self.round += 1
        if self.status == "running" and self.settings.evaluates(row["round"]):
            self._evaluate(row)
        return row

    def _attempt(self, tally: Tally) -> Courier:
        """Play the round's exchanges, again with a new cohort where too few replies are good."""
        for attempt in range(self.settings.retries + 1):
            cohort = self.sampler.draw(self.task.population, self.settings.seed, self.round, attempt)
            courier = Courier(self, [k for k in cohort if len(self.task.examples(k))], tally)
            tally.attempts += 1
            try:
                self.algorithm.round(self.server, courier)
                return courier
            except TooFewReplies:
                if attempt == self.settings.retries or tally.only_non_finite:
                    raise
        raise AssertionError("unreachable")

    def _lr(self) -> float:
        lr = self.settings.decayed_lr(self.round)
        return self.average.lr(lr, self.round, self.settings.rounds) if self.average else lr

    def _average_buffers(self, replies: Replies | None) -> None:
        """Average BatchNorm statistics with the clients' weights; counters are copied from the first client."""
        if replies is not None and len(self.server.buffers):
            mean = replies.mean(BUFFERS)
            self.server.buffers = torch.where(self._counters, replies[0].message.vectors[BUFFERS], mean)

    def _row(self, tally: Tally, before: torch.Tensor, started: float) -> Row:
        if self.status == "running" and not is_finite(self.server.w):
            self.status, self.reason = "diverged", f"round {self.round}: the global model is {NOT_FINITE}"
        row: Row = {
            "round": self.round,
            "clients": [reply.client for reply in tally.taken],
            "lr": self.server.lr,
            "train_loss": tally.train_loss(),
            "update_norm": _number(norm(self.server.w - before)),
            "model_norm": _number(norm(self.evaluated)),
            "bytes_down": tally.bytes_down,
            "bytes_up": tally.bytes_up,
            "backprops": tally.backprops,
            "seconds": time.perf_counter() - started,
        }
        if tally.refused:
            row["refused"] = tally.refused
        if tally.attempts > 1:
            row["attempts"] = tally.attempts
        return row

    def _evaluate(self, row: Row) -> None:
        figures = self.engine.evaluate(self.evaluated, self.server.buffers)
        row.update({name: _number(value) for name, value in figures.items()})
        if not math.isfinite(figures.get("test_loss", 0.0)):
            self.status, self.reason = "diverged", f"round {row['round']}: the test loss is {NOT_FINITE}"


def _number(value: float) -> float | None:
    """Return a number that JSON can hold."""
    return value if math.isfinite(value) else None
