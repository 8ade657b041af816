"""The round loop: sample, exchange, check, update, evaluate, one history row.

One direction, no back and forth: `Federation.rounds()` yields a row per round; whoever iterates writes history
and checkpoints. Server state changes only between exchanges. Where the engine has gaps, a round is evaluated by workers
that would be idle in the next one, and its row comes a round later: `settle()` catches up before state is saved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError
from flatfed.core.evaluation.evaluator import Evaluations
from flatfed.core.method.algorithm import Algorithm, Average
from flatfed.core.method.engine import Engine
from flatfed.core.method.round_memory import MainMemory, RoundMemory
from flatfed.core.method.server import Replies, Server
from flatfed.core.method.state import ClientStore, Overlay, State
from flatfed.core.method.vectors import is_finite, norm
from flatfed.core.model.layout import COUNTERS
from flatfed.core.round.exchange import Courier, Tally, TooFewReplies
from flatfed.core.round.expectation import NOT_FINITE
from flatfed.core.round.sampling import Sampler
from flatfed.core.steering.steering import Steering
from flatfed.core.task.task import Task

Row = dict[str, Any]
TIMES = ("seconds", "client_seconds")
"""What in a row is a measurement of time: all else is the same whenever, and on however many workers, it is played."""
Status = Literal["running", "finished", "diverged", "stopped", "interrupted", "failed"]


class RoundMonitor(Protocol):
    """Something that is measured after some rounds; it must leave no trace."""

    @property
    def looks_back(self) -> bool:
        """Say whether it asks for the local models of the round that was just played."""
        ...

    def due(self, round: int) -> bool:
        """Say whether it is measured after this round."""
        ...

    def read(self, federation: Federation) -> Mapping[str, Any]:
        """Return what goes into the round's row: names to numbers under `watch`, numbers of their own, and more."""
        ...


@dataclass(frozen=True)
class Past:
    """A federation as it was before its last round, and the clients that took part in that round."""

    federation: Federation
    clients: list[int]


@dataclass(frozen=True)
class KeptModel:
    """The evaluated model after a round (from 0), as it was."""

    round: int
    evaluated: torch.Tensor


class Federation:
    """One run of a method on a task: its state, and the loop that moves it.

    What it was before its last round is known where somebody will ask for it: in a round after which a monitor looks
    back, after the final round with `keeps_past`, or from what `recall` finds.
    """

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
        memory: RoundMemory | None = None,
    ) -> None:
        self.task, self.algorithm, self.settings = task, algorithm, settings
        self.sampler, self.engine = sampler, engine
        self.server, self.clients, self.records = server, clients, records
        self.average, self.average_kept = average, average_kept or State({})
        self.round, self.method = round, algorithm
        self.memory: RoundMemory = memory or MainMemory()
        self.status: Status = "running"
        self.reason = ""
        self._waiting: tuple[Row, Evaluations] | None = None
        self._unsound = ""
        self.shows_models = False
        self.monitors: Sequence[RoundMonitor] = ()
        self.keeps_past = False
        self.recall: Callable[[Engine], Past] | None = None
        self._past: Past | None = None
        self.settles: Callable[[int], bool] = lambda round: False
        """After how many rounds the last one is evaluated at once: its state is to be saved just then."""
        self.steering: Steering | None = None
        """What the rows decide of the rounds that come; None where they decide nothing."""
        self.best_model: KeptModel | None = None

    def rounds(self) -> Iterator[Row]:
        """Play the rounds that are left and yield their history rows, in order."""
        self._end_if_steered()
        while self.status == "running" and self.round < self.settings.rounds:
            row = self._play()
            rows = self.settle()  # of the round before, which was evaluated while this one was played
            self._diverge_if_unsound()
            if self.status == "running" and self._is_evaluated(row):
                self._waiting = row, self._evaluations()
            else:
                rows.append(row)
            may_wait = self.engine.gaps and not self.settles(self.round) and self.steering is None
            if not may_wait:
                rows += self.settle()
            self._steer(rows)
            # Only now: whoever saves on a row finds a state that agrees with the rows.
            yield from rows
        yield from self.settle()
        self._diverge_if_unsound()
        if self.status == "running":
            self.status, self.reason = "finished", ""

    def _diverge_if_unsound(self) -> None:
        if self.status == "running" and self._unsound:
            self.status, self.reason = "diverged", self._unsound

    def _is_evaluated(self, row: Row) -> bool:
        """Say whether the model is evaluated after a round: as planned, or because the run ends with it."""
        if self.settings.evaluates(row["round"]):
            return True
        return self.steering is not None and self.steering.ends(row)

    def _steer(self, rows: Sequence[Row]) -> None:
        """Let the rows decide what comes; where they do, none waits, so that the last is of the model as it is."""
        if self.steering is None:
            return
        for row in rows:
            # What is unsound ends the run by itself, and is no model to keep.
            if self.sound and self.status == "running" and self.steering.take(row):
                self.best_model = KeptModel(row["round"], self.evaluated.clone())
        self._end_if_steered()

    def _end_if_steered(self) -> None:
        if self.steering is not None and self.steering.stop and self.status == "running":
            # In the last round it came to its end anyway.
            is_early = self.round < self.settings.rounds
            self.status, self.reason = "finished", self.steering.stop if is_early else ""

    def settle(self) -> list[Row]:
        """Return the row that waits for its evaluation, if one does, with its metrics."""
        if self._waiting is None:
            return []
        row, evaluations = self._waiting
        self._waiting = None  # before the metrics are asked for: if they fail now, they are not asked for again
        for name, value in evaluations.metrics().items():
            row[name] = _number(value) if isinstance(value, float) else value
        if row.get("test_loss", 0.0) is None:
            self._unsound = f"round {row['round'] + 1}: the test loss is {NOT_FINITE}"
        return [row]

    def _evaluations(self) -> Evaluations:
        models = self.evaluated, self.server.w
        return Evaluations(self.engine, self.task, self.settings, *models, self.server.buffers)

    @property
    def sound(self) -> bool:
        """Say whether the last test loss was finite; if not, the run ends with the round after it."""
        return not self._unsound

    @property
    def evaluated(self) -> torch.Tensor:
        """The model that is evaluated: the average's, if there is one."""
        if self.average is None:
            return self.server.w
        return self.average.evaluated(self.average_kept, self.server.w)

    def _play(self) -> Row:
        """Play one round and return its row."""
        started, tally = time.perf_counter(), Tally()
        before = self.server.w.clone()
        self.begin_round()
        past = self.shadow() if self._is_remembered() else None
        try:
            courier = self._attempt(tally, past)
        except TooFewReplies as error:
            self.status = "diverged" if error.diverged else "stopped"
            self.reason = str(error)
            return self._row(tally, before, started)
        # Not before the round has succeeded: after one that fails, clients go on with what they had.
        self._average_buffers(courier.replies)
        courier.replies = None  # nobody reads them any more, and the states need the room
        self._keep_states(courier, past)
        self._past = None if past is None else Past(past, courier.cohort)
        if self.average is not None:
            self.average.capture(self.average_kept, before, self.server.w, self.round, self.settings.rounds)
        row = self._row(tally, before, started)
        # Before the monitors: what they probe is the round that comes.
        self.round += 1
        if self.status == "running":
            self._monitor(row)
        return row

    def _keep_states(self, courier: Courier, past: Federation | None) -> None:
        """Keep what the clients of the round keep; the past keeps what they had before it."""
        for client in courier.cohort:  # a client whose last reply was rejected is not among them
            # One after the other out of the memory of the round, and into the store.
            kept = courier.kept.pop(client, None)
            if kept is None:
                continue
            if past is not None:
                past.clients.write(client, self.clients.read(client))
            self.clients.write(client, State(kept))

    def _monitor(self, row: Row) -> None:
        for monitor in self.monitors:
            if monitor.due(row["round"]):
                self._add_to_row(row, monitor.read(self))

    def _add_to_row(self, row: Row, results: Mapping[str, Any]) -> None:
        for name, values in results.items():
            if isinstance(values, Mapping):
                row.setdefault(name, {}).update(_json(values))
            else:
                row[name] = _number(values)

    def begin_round(self) -> None:
        """Let server and method be those of the round that comes, also after the last that is planned."""
        self.records.close_opened()  # by the update of the round before
        self.server.round, self.server.lr, self.server.watch = self.round, self._lr(self.round), {}
        self.method = self.algorithm.at(self.round)

    def shadow(self, algorithm: Algorithm | None = None) -> Federation:
        """Return a federation that reads what this one keeps and writes to memory of its own.

        With an `algorithm`, a variant of the method with the same states, that one is played.
        """
        server, records = self.server, Overlay(self.records, self.memory)
        # Of the buffers only the dictionary: the loop puts new ones in their place and changes none.
        kept, buffers = server.kept.copy(), dict(server.buffers)
        own = Server(server.w.clone(), kept, buffers, server.population, server.rounds, records, server.tensors)
        # What weight averaging keeps is not copied: a shadow is only probed, and no model enters it then.
        shadow = Federation(
            self.task,
            algorithm or self.algorithm,
            self.settings,
            self.sampler,
            self.engine,
            own,
            Overlay(self.clients, self.memory),
            records,
            self.average,
            self.average_kept,
            self.round,
            self.memory,
        )
        shadow.steering = self.steering
        shadow.begin_round()
        return shadow

    def past(self) -> Past:
        """Return what was before the last round, ready to be tried again."""
        if self.round == 0:
            raise ConfigError("no round has been played yet, so there are no local models of a last round")
        if self._past is None and self.recall is not None:
            self._past = self.recall(self.engine)
        if self._past is None:
            raise ConfigError(f"what was before round {self.round} is not known any more; measure with round=next")
        # The engine of that time may have been closed since.
        self._past.federation.engine = self.engine
        return self._past

    def _is_remembered(self) -> bool:
        """Say whether somebody will ask what was before this round."""
        is_final = self.round == self.settings.rounds - 1
        if self.keeps_past and is_final:
            return True
        return any(monitor.looks_back and monitor.due(self.round) for monitor in self.monitors)

    def _attempt(self, tally: Tally, past: Federation | None) -> Courier:
        """Play the round's exchanges, again with a new cohort where too few replies are good."""
        while True:
            cohort = self.sampler.draw(self.task.population, self.settings.seed, self.round, tally.attempts)
            if past is not None:
                # For each attempt anew: a retry may have another cohort, whose records are still as they were.
                self._copy_records(cohort, past)
            with_examples = [client for client in cohort if self.task.samples(client)]
            courier = Courier(self, with_examples, tally, tally.attempts)
            tally.attempts += 1
            try:
                self.method.advance(self.server, courier)
                return courier
            except TooFewReplies as error:
                # Where every reply overflowed, those of other clients most likely would as well.
                if tally.attempts > self.settings.retries or error.diverged:
                    raise

    def _copy_records(self, cohort: Sequence[int], past: Federation) -> None:
        """Let the past have records of its own: the update changes those of the cohort in place."""
        for client in cohort:
            past.records.write(client, self.records.read(client))

    def _lr(self, round: int) -> float:
        lr = self.settings.decayed_lr(round)
        if self.steering is not None:
            lr = self.steering.lr(lr, round)
        return self.average.lr(lr, round, self.settings.rounds) if self.average else lr

    def _average_buffers(self, replies: Replies | None) -> None:
        """Average BatchNorm statistics with the clients' weights; counters are copied from the first client."""
        if replies is None:
            return
        means = {name: replies.mean(name) for name in self.server.buffers if name != COUNTERS}
        if COUNTERS in self.server.buffers:
            means[COUNTERS] = replies[0].message.vectors[COUNTERS].clone()
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
            "client_seconds": tally.client_seconds(),
        }
        return row | self._on_occasion(tally)

    def _on_occasion(self, tally: Tally) -> Row:
        """Return what a row holds only where there is something to say."""
        entries: Row = {}
        watch = self.server.watch | tally.watch()
        if watch:
            entries["watch"] = {name: _number(value) for name, value in watch.items()}
        if tally.rejected:
            entries["rejected"] = tally.rejected
        if tally.attempts > 1:
            entries["attempts"] = tally.attempts
        return entries


def _json(value: Any) -> Any:
    """Return numbers by name, however deep, as JSON can hold them."""
    if isinstance(value, Mapping):
        return {name: _json(entry) for name, entry in value.items()}
    return _number(value)


def _number(value: float) -> float | None:
    """Return a number that JSON can hold."""
    return value if math.isfinite(value) else None
