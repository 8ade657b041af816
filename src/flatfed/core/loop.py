"""The round loop: sample, exchange, check, update, evaluate, one history row.

One direction, no back and forth: `Federation.rounds()` yields a row per round; whoever iterates writes history
and checkpoints. Server state changes only between exchanges. Where the engine has gaps, a round is evaluated by workers
that would be idle in the next one, and its row comes a round later: `settle()` catches up before state is saved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import torch

from flatfed.core.algorithm import Algorithm, Average
from flatfed.core.checks import NOT_FINITE
from flatfed.core.engine import Engine
from flatfed.core.exchange import Courier, Tally, TooFewReplies
from flatfed.core.layout import COUNTERS
from flatfed.core.sampling import Sampler
from flatfed.core.server import Replies, Server
from flatfed.core.settings import Settings
from flatfed.core.state import State
from flatfed.core.store import ClientStore
from flatfed.core.task import Task
from flatfed.core.testing import Evaluation
from flatfed.core.vectors import is_finite, norm

Row = dict[str, Any]
Status = Literal["running", "finished", "diverged", "stopped", "interrupted", "failed"]


class Monitor(Protocol):
    """Something that is measured after some rounds; it must leave no trace."""

    def due(self, round: int) -> bool:
        """Say whether it is measured after this round."""
        ...

    def read(self, federation: Federation) -> Mapping[str, Any]:
        """Return what goes into the round's row: names to numbers under `watch`, and more."""
        ...


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
        self.task, self.algorithm, self.settings = task, algorithm, settings
        self.sampler, self.engine = sampler, engine
        self.server, self.clients, self.records = server, clients, records
        self.average, self.average_kept = average, average_kept or State({})
        self.round, self.method = round, algorithm
        self.status: Status = "running"
        self.reason = ""
        self._waiting: tuple[Row, Evaluation] | None = None
        self._unsound = ""
        self.shows_models = False
        self.monitors: Sequence[Monitor] = ()
        self.settles: Callable[[int], bool] = lambda round: False
        """After how many rounds the last one is evaluated at once: its state is to be saved just then."""

    def rounds(self) -> Iterator[Row]:
        """Play the rounds that are left and yield their history rows, in order."""
        while self.status == "running" and self.round < self.settings.rounds:
            row = self._play()
            late = self.settle()
            if self.status == "running" and self._unsound:
                self.status, self.reason = "diverged", self._unsound
            if self.status == "running" and self.settings.evaluates(row["round"]):
                model = self.evaluated.clone()
                self._waiting = row, Evaluation(self.engine, self.task, self.settings, model, self.server.buffers)
            else:
                late.append(row)
            waits = self.engine.gaps and not self.settles(self.round)
            yield from late if waits else late + self.settle()
        yield from self.settle()
        if self.status == "running":
            self.status, self.reason = ("diverged", self._unsound) if self._unsound else ("finished", "")

    def settle(self) -> list[Row]:
        """Return the row that waits for its evaluation, if one does, with its figures."""
        if self._waiting is None:
            return []
        row, evaluation = self._waiting
        figures = evaluation.figures()
        self._waiting = None
        row.update({name: _number(value) if isinstance(value, float) else value for name, value in figures.items()})
        if row.get("test_loss", 0.0) is None:
            self._unsound = f"round {row['round'] + 1}: the test loss is {NOT_FINITE}"
        return [row]

    @property
    def sound(self) -> bool:
        """Say whether the last test loss was finite; if not, the run ends with the round after it."""
        return not self._unsound

    @property
    def evaluated(self) -> torch.Tensor:
        """The model that is evaluated: the average's, if there is one."""
        return self.average.evaluated(self.average_kept, self.server.w) if self.average else self.server.w

    def _play(self) -> Row:
        """Play one round and return its row."""
        started, tally, before = time.perf_counter(), Tally(), self.server.w.clone()
        self.begin_round()
        try:
            courier = self._attempt(tally)
        except TooFewReplies as error:
            self.status, self.reason = ("diverged" if error.diverged else "stopped"), str(error)
            return self._row(tally, before, started)
        for client in courier.cohort:
            if client in courier.kept:
                self.clients.write(client, courier.kept[client])
        self._average_buffers(courier.replies)
        if self.average:
            self.average.capture(self.average_kept, before, self.server.w, self.round, self.settings.rounds)
        row = self._row(tally, before, started)
        self.round += 1
        if self.status == "running":
            self._monitor(row)
        return row

    def _monitor(self, row: Row) -> None:
        for monitor in self.monitors:
            if monitor.due(row["round"]):
                for name, found in monitor.read(self).items():
                    row.setdefault(name, {}).update(_json(found))

    def begin_round(self) -> None:
        """Let server and method be those of the round that comes."""
        self.server.round, self.server.lr, self.server.watch = self.coming, self._lr(self.coming), {}
        self.method = self.algorithm.at(self.coming)

    @property
    def coming(self) -> int:
        """The round that comes, or the last one when all are played."""
        return min(self.round, self.settings.rounds - 1)

    def _attempt(self, tally: Tally) -> Courier:
        """Play the round's exchanges, again with a new cohort where too few replies are good."""
        while True:
            cohort = self.sampler.draw(self.task.population, self.settings.seed, self.round, tally.attempts)
            courier = Courier(self, [k for k in cohort if len(self.task.examples(k))], tally)
            tally.attempts += 1
            try:
                self.method.round(self.server, courier)
                return courier
            except TooFewReplies as error:
                if tally.attempts > self.settings.retries or error.diverged:
                    raise

    def _lr(self, round: int) -> float:
        lr = self.settings.decayed_lr(round)
        return self.average.lr(lr, round, self.settings.rounds) if self.average else lr

    def _average_buffers(self, replies: Replies | None) -> None:
        """Average BatchNorm statistics with the clients' weights; counters are copied from the first client."""
        if replies is not None:
            first = replies[0].message.vectors
            means = {
                name: first[name].clone() if name == COUNTERS else replies.mean(name) for name in self.server.buffers
            }
            self.server.buffers = means

    def _row(self, tally: Tally, before: torch.Tensor, started: float) -> Row:
        if self.status == "running" and not is_finite(self.server.w):
            self.status, self.reason = "diverged", f"round {self.round + 1}: the global model is {NOT_FINITE}"
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
        watch = self.server.watch | tally.watch()
        if watch:
            row["watch"] = {name: _number(value) for name, value in watch.items()}
        if tally.refused:
            row["refused"] = tally.refused
        if tally.attempts > 1:
            row["attempts"] = tally.attempts
        return row


def _json(value: Any) -> Any:
    """Return numbers by name, however deep, as JSON can hold them."""
    return {name: _json(v) for name, v in value.items()} if isinstance(value, Mapping) else _number(value)


def _number(value: float) -> float | None:
    """Return a number that JSON can hold."""
    return value if math.isfinite(value) else None
