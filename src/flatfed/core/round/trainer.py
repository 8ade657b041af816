"""The client's side of an exchange: load the message, let the method work, make the reply.

Every engine, in this process or another, runs clients through a `Trainer`; each holds one model, which its `Evaluator`
shares.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from flatfed.core.configuration.base_optimiser import BaseOptimiser
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import EngineError, FlatfedError
from flatfed.core.evaluation.evaluator import Evaluator, LoadedModel
from flatfed.core.method.algorithm import Algorithm, client_slots
from flatfed.core.method.client import Client
from flatfed.core.method.engine import Job, Reply
from flatfed.core.method.messages import Message
from flatfed.core.method.state import State
from flatfed.core.model.devices import CPU
from flatfed.core.model.layout import BUFFERS, COUNTERS, LOCAL_BUFFERS, LOCAL_COUNTERS, LOCAL_PARAMETERS, Layout
from flatfed.core.model.oracle import ClientOracle
from flatfed.core.randomness import key, key_other_generators
from flatfed.core.round.vectorised import SharedOracle, VectorisedClients
from flatfed.core.task.task import Task

Pulse = Callable[[], None]
"""Called now and then while a client works: a place to notice that the user wants to stop."""


def no_pulse() -> None:
    """Notice nothing."""


class Trainer:
    """One model and what it takes to run any client of a task on it."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings) -> None:
        self.task, self.algorithm, self.settings = task, algorithm, settings
        self._loaded = LoadedModel(task, settings)
        self.oracle, self.layout = self._loaded.oracle, self._loaded.layout
        self.evaluator = Evaluator(task, settings, self._loaded)

    def run(self, message: Message, job: Job, pulse: Pulse = no_pulse) -> Reply:
        """Do one job and return the reply; `job.kept` is changed in place and handed back with it."""
        self._loaded.write_buffers((message | job.personal).vectors, job.kept)
        self.oracle.model.train()
        self._key_other_generators(job)
        reply = self._work(self.oracle, message, job, pulse)
        watched = self.oracle.watched()
        return replace(reply, watch={**reply.watch, **watched}) if watched else reply

    def _key_other_generators(self, job: Job) -> None:
        """Key what a user's model or loss may draw from beside torch's generator, which is keyed for every step.

        Once per client, because NumPy takes as long for it as for a small step.
        """
        key_other_generators(key(self.settings.seed, "numpy and random", job.round, job.exchange, job.client))

    def run_together(self, message: Message, jobs: Sequence[Job], pulse: Pulse = no_pulse) -> list[Reply]:
        """Do several jobs, vectorised where the settings say so, and return their replies."""
        if not self.settings.vectorised or len(jobs) == 1:
            return [self.run(message, job, pulse) for job in jobs]
        self._key_other_generators(jobs[0])  # groups, and the turns within one, are the same on any number of workers
        # The plain model is in use too: a request that has no equal in the group is answered by it.
        self.oracle.model.train()
        works = [functools.partial(self._named_work, message, job, pulse) for job in jobs]
        # Before the clock starts: the stacked model is built with the first group, and is nobody's local work.
        clients = self.vectorised_clients
        started = time.perf_counter()
        replies = clients.run(works)
        # Their work is interwoven, so that none has a time of its own: each is given an equal share of the group's.
        each = (time.perf_counter() - started) / len(jobs)
        return [replace(reply, seconds=each) for reply in replies]

    @functools.cached_property
    def vectorised_clients(self) -> VectorisedClients:
        """What several clients are trained on at once."""
        return VectorisedClients(self.oracle)

    def _named_work(self, message: Message, job: Job, pulse: Pulse, oracle: SharedOracle) -> Reply:
        """Do one of several jobs; an error says whose it was."""
        try:
            return self._work(oracle, message, job, pulse)
        except FlatfedError:
            raise
        except Exception as error:
            raise EngineError(f"client {job.client} failed: {type(error).__name__}: {error}") from error

    def _work(self, oracle: ClientOracle, message: Message, job: Job, pulse: Pulse) -> Reply:
        """Let the method do a job on an oracle, alone or among others."""
        algorithm, kept = self.algorithm.at(job.round), job.kept.to(oracle.device)
        received = (message | job.personal).to(oracle.device)
        self._load(oracle.w, received, kept)
        before = oracle.backprops
        # torch counts every change in place, so that no copy is needed to notice one.
        versions = {name: vector._version for name, vector in received.vectors.items()}
        client = Client(
            job.client,
            job.round,
            job.exchange,
            job.lr,
            self._padded(received),
            kept,
            self.task.examples(job.client),
            oracle,
            self.settings.at(job.round),
            pulse,
        )
        started = time.perf_counter()
        answer = algorithm.local(client)
        seconds = time.perf_counter() - started
        self._refuse_changed(received, versions)
        if client.keeps_local_layers:
            self._keep_local_layers(oracle.w, kept)
        if kept is not job.kept:  # a copy on another device: what the client keeps comes back from it
            for name in kept:
                setattr(job.kept, name, getattr(kept, name))
        shared = self.layout.shared
        return Reply(
            client=job.client,
            round=job.round,
            exchange=job.exchange,
            message=self._outgoing(answer),
            samples=client.samples,
            steps=client.steps,
            backprops=oracle.backprops - before,
            loss=client.train_loss,
            kept=job.kept,
            # Numbers of NumPy and torch too: rows and messages hold plain ones.
            watch={name: float(value) for name, value in client.watch.items()},
            drift=float(torch.dist(client.w[:shared], client.start[:shared])),
            model=oracle.w[:shared].to(CPU, copy=True) if job.shows_model else None,
            seconds=seconds,
            attempt=job.attempt,
        )

    def _refuse_changed(self, received: Message, versions: Mapping[str, int]) -> None:
        """Refuse a method that wrote into what it received: in one process, others would read that too."""
        for name, vector in received.vectors.items():
            if vector._version != versions[name]:
                raise FlatfedError(f"{self.algorithm.id} changed the received vector {name!r} in place; copy it first")

    def _load(self, w: Tensor, message: Message, kept: State) -> None:
        """Let the parameters be where the client starts: as received, and what the client keeps for itself."""
        shared = self.layout.shared
        w[:shared] = message.w
        if shared < self.layout.size:
            w[shared:] = getattr(kept, LOCAL_PARAMETERS)

    def _padded(self, message: Message) -> Message:
        """Return the message as the method sees it: vectors as long as the client's, zero where nothing was sent."""
        if self.layout.shared == self.layout.size:
            return message
        vectors: dict[str, Tensor] = {}
        for name, vector in message.vectors.items():
            if name in (BUFFERS, COUNTERS):  # in the model already
                continue
            is_shared = len(vector) == self.layout.shared
            vectors[name] = _pad(vector, self.layout.size) if is_shared else vector
        return Message.of(vectors, message.scalars)

    def _outgoing(self, answer: Message) -> Message:
        """Return what leaves the client: the shared part of each vector, and the shared buffers."""
        # Copies: a client's `w` is the model's own vector, which the next client writes over.
        vectors = {name: self._shared_part(vector).to(CPU, copy=True) for name, vector in answer.vectors.items()}
        if self.layout.shared_buffers or self.layout.shared_counters:
            buffers, counters = self._loaded.read_buffers()
            if self.layout.shared_buffers:
                vectors[BUFFERS] = buffers[: self.layout.shared_buffers]
            if self.layout.shared_counters:
                vectors[COUNTERS] = counters[: self.layout.shared_counters]
        return Message.of(vectors, answer.scalars)

    def _shared_part(self, vector: Tensor) -> Tensor:
        return vector[: self.layout.shared] if vector.shape == (self.layout.size,) else vector

    def _keep_local_layers(self, w: Tensor, kept: State) -> None:
        if LOCAL_PARAMETERS in kept:
            kept.local_parameters = w[self.layout.shared :]
        if LOCAL_BUFFERS not in kept and LOCAL_COUNTERS not in kept:
            return
        buffers, counters = self._loaded.read_buffers()
        if LOCAL_BUFFERS in kept:
            kept.local_buffers = buffers[self.layout.shared_buffers :]
        if LOCAL_COUNTERS in kept:
            kept.local_counters = counters[self.layout.shared_counters :]


def _pad(vector: Tensor, size: int) -> Tensor:
    return torch.cat([vector, vector.new_zeros(size - len(vector))])


def fresh_client_state(
    algorithm: Algorithm, base: BaseOptimiser, initial: Tensor, buffers: tuple[Tensor, Tensor], layout: Layout
) -> State:
    """Return what a client keeps before it has ever taken part: what is declared, and its local layers."""
    entries = State.declared(client_slots(algorithm, base), initial, layout.shared_tensors).tensors()
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
