"""A worker on the cluster: an actor that holds one model and runs clients on it."""

from __future__ import annotations

import os
import platform
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from flatfed import __version__
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.algorithm import Algorithm
from flatfed.core.method.engine import Item, WorkFunction, together
from flatfed.core.method.messages import Message, pack, unpack
from flatfed.core.method.wire import decode_job, encode_reply
from flatfed.core.round.trainer import Trainer
from flatfed.core.task.task import Task
from flatfed.engines.pool.work import Failed
from flatfed.engines.ray_cluster.bare_task import Unreadable
from flatfed.engines.ray_cluster.sending import as_array
from flatfed.machine import keep_freed_memory

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Introduction:
    """What a worker says of itself when it has come."""

    node: str
    host: str
    pid: int
    arithmetic: dict[str, str]


def arithmetic() -> dict[str, str]:
    """Return what decides the bits of this process, by name."""
    return {
        "flatfed": __version__,
        "torch": torch.__version__,
        "NumPy": np.__version__,
        "CPU instructions": torch.backends.cpu.get_cpu_capability(),
    }


class ClusterWorker:
    """One model, and what it takes to run clients on it; errors are answers."""

    _trainer: Trainer

    def __init__(self, algorithm: Algorithm, settings: Settings) -> None:
        # Sums over long vectors then have one order, the same as everywhere.
        torch.set_num_threads(1)
        keep_freed_memory()
        self._algorithm, self._settings = algorithm, settings
        self._messages: list[tuple[str, Message]] = []

    def introduce(self) -> Introduction:
        """Say who this is."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        return Introduction(node, platform.node(), os.getpid(), arithmetic())

    def take(self, task: Task | Unreadable) -> Unreadable | None:
        """Take the task; where its examples could not be read on this node, say so."""
        if isinstance(task, Unreadable):
            return task
        self._trainer = Trainer(task, self._algorithm, self._settings)
        return None

    def train(self, jobs: list[Array], names: list[str], *held: Array) -> list[Array] | Failed:
        """Run clients: they `held` everyone's messages of the round, one under each of the names."""
        try:
            message = self._message(names, held)
            todo = [decode_job(job.tobytes()) for job in jobs]
            replies = self._trainer.run_together(message, todo)
            return [as_array(encode_reply(reply)) for reply in replies]
        except Exception as error:
            return Failed.of(error, traceback.format_exc(), computes=False)

    def _message(self, names: list[str], held: tuple[Array, ...]) -> Message:
        """Return what the clients hold; what the last clients held too is not read again."""
        known = dict(self._messages)
        self._messages = []
        for name, data in zip(names, held, strict=True):
            message = known[name] if name in known else Message.from_bytes(data.tobytes())
            self._messages.append((name, message))
        return together(message for _, message in self._messages)

    def compute(self, given: Array, piece: WorkFunction, item: Item) -> Array | Failed:
        """Do a piece of work for one item."""
        try:
            return as_array(pack(piece(self._trainer.evaluator, unpack(given.tobytes()), *item)))
        except Exception as error:
            return Failed.of(error, traceback.format_exc(), computes=True)
