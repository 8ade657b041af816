"""The client's side of an exchange: load the message, let the method work, make the reply.

Every engine, in this process or another, runs clients through a `Trainer`; each holds one model.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flatfed.core.algorithm import Algorithm
from flatfed.core.client import Client
from flatfed.core.engine import Job, Reply
from flatfed.core.layout import Layout
from flatfed.core.messages import Message
from flatfed.core.metrics import Totals
from flatfed.core.oracle import Oracle
from flatfed.core.settings import Settings
from flatfed.core.state import State
from flatfed.core.task import Task

LOCAL_PARAMETERS = "local_parameters"
LOCAL_BUFFERS = "local_buffers"
BUFFERS = "buffers"
EVALUATION_BATCH = 512


class Trainer:
    """One model and what it takes to run any client of a task on it."""

    def __init__(self, task: Task, algorithm: Algorithm, settings: Settings) -> None:
        self.task, self.algorithm, self.settings = task, algorithm, settings
        self.oracle = Oracle(task, settings.torch_dtype)
        self.layout = self.oracle.layout
        self._own_start = self.oracle.w[self.layout.shared :].clone()

    def run(self, message: Message, job: Job, pulse: Callable[[], None] = lambda: None) -> Reply:
        """Do one job and return the reply; `job.kept` is changed in place and handed back with it."""
        self._load(message, job.kept)
        before = self.oracle.backprops
        client = Client(
            job.client,
            job.round,
            job.exchange,
            job.lr,
            self._padded(message | job.personal),
            job.kept,
            self.task.examples(job.client),
            self.oracle,
            self.settings,
            pulse,
        )
        answer = self.algorithm.local(client)
        self._keep_local_parts(job.kept)
        return Reply(
            client=job.client,
            round=job.round,
            exchange=job.exchange,
            message=self._outgoing(answer),
            samples=client.samples,
            steps=client.steps,
            backprops=self.oracle.backprops - before,
            loss=client.train_loss,
            kept=job.kept,
        )

    def measure(self, w: Tensor, buffers: Tensor, first: int, count: int) -> Totals:
        """Return test sums over `count` examples from `first`, with the model in inference mode."""
        self.oracle.w[: self.layout.shared] = w
        self.oracle.w[self.layout.shared :] = self._own_start
        self._write_buffers(buffers, None)
        self.oracle.model.eval()
        indices = torch.arange(first, first + count)
        inputs, targets = self.oracle.batch(*self.task.test.batch(indices))
        with torch.no_grad():
            outputs = self.oracle.model(inputs)
            loss = self.task.loss(outputs, targets).double() * count
            return {
                "loss": loss,
                "count": torch.tensor(float(count)),
                **self.task.metrics.measure(outputs, targets),
            }

    def _load(self, message: Message, kept: State) -> None:
        """Put the model where the client starts: what was received, and what the client keeps for itself."""
        shared = self.layout.shared
        self.oracle.w[:shared] = message.w
        if shared < self.layout.size:
            self.oracle.w[shared:] = getattr(kept, LOCAL_PARAMETERS)
        if self.layout.buffers:
            self._write_buffers(message.vectors.get(BUFFERS), kept)
        self.oracle.model.train()

    def _write_buffers(self, shared: Tensor | None, kept: State | None) -> None:
        if not self.layout.buffers:
            return
        flat = self.oracle.initial_buffers.clone()
        if shared is not None:
            flat[: self.layout.shared_buffers] = shared
        if kept is not None and LOCAL_BUFFERS in kept:
            flat[self.layout.shared_buffers :] = getattr(kept, LOCAL_BUFFERS)
        self.layout.write_buffers(flat, self.oracle.model)

    def _padded(self, message: Message) -> Message:
        """Return the message as the method sees it: vectors as long as the client's, zero where nothing was sent."""
        if self.layout.shared == self.layout.size:
            return message
        full = {name: _pad(v, self.layout.size) for name, v in message.vectors.items() if name != BUFFERS}
        return Message.of(full, message.scalars)

    def _outgoing(self, answer: Message) -> Message:
        """Return what leaves the client: the shared part of each vector, and the shared buffers."""
        vectors = {name: v[: self.layout.shared].clone() for name, v in answer.vectors.items()}
        if self.layout.shared_buffers:
            buffers = self.layout.read_buffers(self.oracle.model, self.oracle.dtype)
            vectors[BUFFERS] = buffers[: self.layout.shared_buffers]
        return Message.of(vectors, answer.scalars)

    def _keep_local_parts(self, kept: State) -> None:
        if LOCAL_PARAMETERS in kept:
            kept.local_parameters = self.oracle.w[self.layout.shared :]
        if LOCAL_BUFFERS in kept:
            buffers = self.layout.read_buffers(self.oracle.model, self.oracle.dtype)
            kept.local_buffers = buffers[self.layout.shared_buffers :]


def _pad(vector: Tensor, size: int) -> Tensor:
    return torch.cat([vector, vector.new_zeros(size - len(vector))])


def test_chunks(task: Task) -> list[tuple[int, int]]:
    """Return the fixed division of the test set: (first, count) of each batch, whoever evaluates it."""
    total = len(task.test) if task.test is not None else 0
    return [(first, min(EVALUATION_BATCH, total - first)) for first in range(0, total, EVALUATION_BATCH)]


def fresh_client_state(algorithm: Algorithm, initial: Tensor, buffers: Tensor, layout: Layout) -> State:
    """Return what a client keeps before it has ever taken part."""
    entries = State.declared(algorithm.client_state(), initial).tensors()
    if layout.shared < layout.size:
        entries[LOCAL_PARAMETERS] = initial[layout.shared :].clone()
    if layout.shared_buffers < layout.buffer_size:
        entries[LOCAL_BUFFERS] = buffers[layout.shared_buffers :].clone()
    return State(entries)
