"""The client's side of an exchange: load the message, let the method work, make the reply.

Every engine, in this process or another, runs clients through a `Trainer`; each holds one model.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import ConfigError, EngineError, FlatfedError
from flatfed.core.evaluation.metrics import Totals, add_up
from flatfed.core.evaluation.statistics import (
    Calibration,
    Statistics,
    averaged,
    batch_statistics,
    default_statistics,
    even_chunks,
    has_batch_norm,
)
from flatfed.core.method.algorithm import Algorithm, client_slots
from flatfed.core.method.client import Client
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.model.devices import CPU, find_device
from flatfed.core.model.layout import BUFFERS, COUNTERS, LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS, Layout
from flatfed.core.model.oracle import Oracle
from flatfed.core.randomness import key
from flatfed.core.round.engine import Job, Reply
from flatfed.core.round.vectorised import Lockstep, Seat
from flatfed.core.task.examples import Examples
from flatfed.core.task.task import Task

NOTHING = State({})


class NoStatistics(ConfigError):
    """A batch is too small for BatchNorm to take its statistics from."""


class Trainer:
    """One model and what it takes to run any client of a task on it."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings) -> None:
        self.task, self.algorithm, self.settings = task, algorithm, settings
        self.oracle = Oracle(task, settings.torch_dtype, find_device(settings.device))
        self.layout = self.oracle.layout
        self.statistics = settings.eval_stats or default_statistics(self.layout)
        self._own_start = self.oracle.w[self.layout.shared :].clone()

    def run(self, message: Message, job: Job, pulse: Callable[[], None] = lambda: None) -> Reply:
        """Do one job and return the reply; `job.kept` is changed in place and handed back with it."""
        self._write_buffers((message | job.personal).vectors, job.kept)
        self.oracle.model.train()
        return self._work(self.oracle, message, job, pulse)

    def run_together(
        self, message: Message, jobs: Sequence[Job], pulse: Callable[[], None] = lambda: None
    ) -> list[Reply]:
        """Do several jobs, in lockstep where the settings say so, and return their replies."""
        if not self.settings.batched or len(jobs) == 1:
            return [self.run(message, job, pulse) for job in jobs]
        self.oracle.model.train()
        works = [functools.partial(self._named_work, message, job, pulse) for job in jobs]
        lockstep, started = self.lockstep, time.perf_counter()
        replies = lockstep.run(works)
        each = (time.perf_counter() - started) / len(jobs)  # their work is interwoven: equal shares of the group's
        return [replace(reply, seconds=each) for reply in replies]

    @functools.cached_property
    def lockstep(self) -> Lockstep:
        """What several clients are trained on at once."""
        return Lockstep(self.oracle)

    def _named_work(self, message: Message, job: Job, pulse: Callable[[], None], seat: Seat) -> Reply:
        """Do one of several jobs; an error says whose it was."""
        try:
            return self._work(seat, message, job, pulse)
        except FlatfedError:
            raise
        except Exception as error:
            raise EngineError(f"client {job.client} failed: {type(error).__name__}: {error}") from error

    def _work(self, desk: Oracle | Seat, message: Message, job: Job, pulse: Callable[[], None]) -> Reply:
        """Let the method do a job on an oracle, alone or among others."""
        algorithm, kept = self.algorithm.at(job.round), job.kept.to(desk.device)
        received = (message | job.personal).to(desk.device)
        self._load(desk.w, received, kept)
        before = desk.backprops
        versions = {name: vector._version for name, vector in received.vectors.items()}
        client = Client(
            job.client,
            job.round,
            job.exchange,
            job.lr,
            self._padded(received),
            kept,
            self.task.examples(job.client),
            desk,
            self.settings.at(job.round),
            pulse,
        )
        started = time.perf_counter()
        answer = algorithm.local(client)
        seconds = time.perf_counter() - started
        for name, vector in received.vectors.items():
            if vector._version != versions[name]:
                raise FlatfedError(f"{self.algorithm.id} changed the received vector {name!r} in place; copy it first")
        if client.keeps_local_parts:
            self._keep_local_parts(desk.w, kept)
        for name in kept if kept is not job.kept else ():
            setattr(job.kept, name, getattr(kept, name))
        return Reply(
            client=job.client,
            round=job.round,
            exchange=job.exchange,
            message=self._outgoing(answer),
            samples=client.samples,
            steps=client.steps,
            backprops=desk.backprops - before,
            loss=client.train_loss,
            kept=job.kept,
            watch=client.watch,
            drift=float(torch.dist(client.w[: self.layout.shared], client.start[: self.layout.shared])),
            model=desk.w[: self.layout.shared].to(CPU, copy=True) if job.shows_model else None,
            seconds=seconds,
        )

    def measure(self, w: Tensor, buffers: Mapping[str, Tensor], test: str, first: int, count: int) -> Totals:
        """Return sums over `count` examples of a test set from `first`, with the model in inference mode."""
        self.show(w, buffers)
        torch.default_generator.manual_seed(key(self.settings.seed, test, first))
        return self.totals(self.task.test_sets[test], first, count)

    def measure_client(self, w: Tensor, buffers: Mapping[str, Tensor], kept: State, client: int) -> Totals:
        """Return sums over all of a client's own examples, the model having the client's own local parts."""
        examples, parts = self.task.examples(client), []
        policy: Statistics = "running" if LOCAL_BUFFERS in kept else self.statistics
        for first, count in even_chunks(len(examples), self.task.test_batch):
            self.show(w, buffers, kept)
            torch.default_generator.manual_seed(key(self.settings.seed, "own examples", client, first))
            parts.append(self.totals(examples, first, count, policy))
        return add_up(parts)

    def totals(self, examples: Examples, first: int, count: int, policy: Statistics | None = None) -> Totals:
        """Return sums over some examples, with the model as it is shown."""
        inputs, targets = self.oracle.batch(*examples.batch(torch.arange(first, first + count)))
        with torch.no_grad(), self.inference(policy):
            outputs = self.inferred(inputs)
            sums: dict[str, Tensor] = {"counted": torch.tensor(float(count))}
            sums |= self.task.metrics.measure(outputs, targets)
            mean = self.task.loss(outputs, targets).double()
            loss = mean * sums["counted"] if sums["counted"] > 0 else torch.zeros_like(mean)
            return {name: value.to(CPU) for name, value in sums.items()} | {"loss": loss.to(CPU)}

    def inference(self, policy: Statistics | None = None) -> AbstractContextManager[None]:
        """Let BatchNorm use the statistics of the policy (default: the settings')."""
        return batch_statistics(self.oracle.model) if (policy or self.statistics) == "batch-stats" else nullcontext()

    def inferred(self, inputs: Tensor) -> Any:
        """Return the outputs, with an error of our own where a batch is too small to have statistics."""
        try:
            return self.oracle.model(inputs)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise NoStatistics(
                "a batch of one example has no statistics of its own to evaluate with; take recalibrate, or another "
                "test_batch"
            ) from None

    def calibrate(self, w: Tensor, buffers: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
        """Return the real buffers of the model with the statistics of one batch of the calibration sample."""
        self.show(w, buffers)
        torch.default_generator.manual_seed(key(self.settings.seed, "calibration batch", number))
        inputs = self.oracle.prepared(self.calibration.inputs(number))
        with torch.no_grad(), batch_statistics(self.oracle.model, remember=True):
            self.oracle.model(inputs)
        return {BUFFERS: self.layout.read_buffers(self.oracle.model, self.oracle.dtype)[0]}

    def calibrated(self, w: Tensor, buffers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the buffers to evaluate with: as given, or calibrated where that is the policy."""
        if self.statistics != "recalibrate" or not has_batch_norm(self.oracle.model):
            return buffers
        return {**buffers, **averaged([self.calibrate(w, buffers, n) for n in range(len(self.calibration))])}

    @functools.cached_property
    def calibration(self) -> Calibration:
        """The sample that statistics are estimated on."""
        return Calibration(self.task, self.settings.seed)

    def show(self, w: Tensor, buffers: Mapping[str, Tensor], kept: State = NOTHING) -> None:
        """Put the model into inference mode, with these parameters and buffers and the local parts that are kept.

        Where none are kept, local parts are the initial ones.
        """
        self.oracle.w[: self.layout.shared] = w
        own = getattr(kept, LOCAL_PARAMETERS) if LOCAL_PARAMETERS in kept else self._own_start
        self.oracle.w[self.layout.shared :] = own
        self._write_buffers(buffers, kept)
        self.oracle.model.eval()

    def _load(self, w: Tensor, message: Message, kept: State) -> None:
        """Let the parameters be where the client starts: as received, and what the client keeps for itself."""
        shared = self.layout.shared
        w[:shared] = message.w
        if shared < self.layout.size:
            w[shared:] = getattr(kept, LOCAL_PARAMETERS)

    def _write_buffers(self, received: Mapping[str, Tensor], kept: State) -> None:
        """Give every buffer its value: received, kept by the client, or as in the initial model."""
        self.oracle.reset_buffers()
        if not (self.layout.buffers or self.layout.counters):
            return
        buffers, counters = (flat.clone() for flat in self.oracle.initial_buffers)
        for flat, name, local in ((buffers, BUFFERS, LOCAL_BUFFERS), (counters, COUNTERS, LOCAL_COUNTERS)):
            if name in received:  # the shared part, which comes first; or all, when they have been calibrated
                flat[: len(received[name])] = received[name]
            if local in kept:
                own = getattr(kept, local)
                flat[len(flat) - len(own) :] = own
        self.layout.write_buffers(buffers, counters, self.oracle.model)

    def _padded(self, message: Message) -> Message:
        """Return the message as the method sees it: vectors as long as the client's, zero where nothing was sent."""
        if self.layout.shared == self.layout.size:
            return message
        vectors = {name: v for name, v in message.vectors.items() if name not in (BUFFERS, COUNTERS)}
        full = {name: _pad(v, self.layout.size) if len(v) == self.layout.shared else v for name, v in vectors.items()}
        return Message.of(full, message.scalars)

    def _outgoing(self, answer: Message) -> Message:
        """Return what leaves the client: the shared part of each vector, and the shared buffers."""
        shared, size = self.layout.shared, self.layout.size
        parts = {n: v[:shared] if v.shape == (size,) else v for n, v in answer.vectors.items()}
        vectors = {name: part.to(CPU, copy=True) for name, part in parts.items()}
        buffers, counters = self.layout.read_buffers(self.oracle.model, self.oracle.dtype)
        if self.layout.shared_buffers:
            vectors[BUFFERS] = buffers[: self.layout.shared_buffers]
        if self.layout.shared_counters:
            vectors[COUNTERS] = counters[: self.layout.shared_counters]
        return Message.of(vectors, answer.scalars)

    def _keep_local_parts(self, w: Tensor, kept: State) -> None:
        if LOCAL_PARAMETERS in kept:
            kept.local_parameters = w[self.layout.shared :]
        buffers, counters = self.layout.read_buffers(self.oracle.model, self.oracle.dtype)
        if LOCAL_BUFFERS in kept:
            kept.local_buffers = buffers[self.layout.shared_buffers :]
        if LOCAL_COUNTERS in kept:
            kept.local_counters = counters[self.layout.shared_counters :]


def _pad(vector: Tensor, size: int) -> Tensor:
    return torch.cat([vector, vector.new_zeros(size - len(vector))])


def fresh_client_state(algorithm: Algorithm, initial: Tensor, buffers: tuple[Tensor, Tensor], layout: Layout) -> State:
    """Return what a client keeps before it has ever taken part: what is declared, and its local parts."""
    entries = State.declared(client_slots(algorithm), initial).tensors()
    own = {
        LOCAL_PARAMETERS: initial[layout.shared :],
        LOCAL_BUFFERS: buffers[0][layout.shared_buffers :],
        LOCAL_COUNTERS: buffers[1][layout.shared_counters :],
    }
    return State(entries | {name: part.clone() for name, part in own.items() if len(part)})


def shared_buffers(buffers: tuple[Tensor, Tensor], layout: Layout) -> dict[str, Tensor]:
    """Return the buffers that the server averages (real ones) and copies (counters), by their name in messages."""
    shared = {BUFFERS: buffers[0][: layout.shared_buffers], COUNTERS: buffers[1][: layout.shared_counters]}
    return {name: part.clone() for name, part in shared.items() if len(part)}
