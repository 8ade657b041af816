"""Small models: a linear one, where most of a step is not arithmetic, and LeNet, where most of it is."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from bare import Bare
from federated import Rounds, task_of
from harness import Result, Target, ratio, take_turns
from problems import LENET, LR, TINY, WEIGHT_DECAY
from torch import Tensor

from flatfed.machine import keep_freed_memory

TINY_METHODS = {"fedsam": 2.1, "scaffold": 1.3}
"""How many times as long as fedavg each may take."""


OPERATIONS = "tensor operations alone"
INPUTS, CLASSES = 3072, 10
SIZE = CLASSES * (INPUTS + 1)
WIDTH = -(-SIZE // 64) * 64
"""Entries of a row, so that each begins at a multiple of a cache line."""

ONE_BY_ONE = "fedavg, vectorised, steps one by one, in process"


class OneByOne(Rounds):
    """Vectorised clients of which each takes its own Python steps: what a method that is not row by row comes to."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__(name, **arguments)
        self.engine._trainer.vectorised_clients.is_row_wise = False


class Operations:
    """The tensor operations of a round of `tiny`, groups of clients on stacked rows, and nothing of flatfed."""

    def __init__(self, together: int) -> None:
        self.name = f"{OPERATIONS}, {together} clients at a time"
        self._together = together
        self._inputs, self._targets = TINY.data()
        self._w, self._gradients = torch.zeros(2, together, WIDTH)[..., :SIZE].unbind()

    def round(self) -> float:
        started = time.process_time()
        for clients in torch.randperm(TINY.clients)[: TINY.per_round].split(self._together):
            orders = torch.stack([torch.randperm(TINY.samples) for _ in clients])
            for indices in (clients[:, None] * TINY.samples + orders).split(TINY.batch_size, dim=1):
                self._step(self._w[: len(clients)], self._gradients[: len(clients)], indices.reshape(-1))
        return time.process_time() - started

    def _step(self, w: Tensor, gradients: Tensor, indices: Tensor) -> None:
        columns = self._inputs.index_select(0, indices).view(len(w), -1, INPUTS).transpose(1, 2)
        weight = w[:, : CLASSES * INPUTS].unflatten(1, (CLASSES, INPUTS)).detach().requires_grad_()
        bias = w[:, CLASSES * INPUTS :].detach().requires_grad_()
        outputs = torch.baddbmm(bias.unsqueeze(2), weight, columns).transpose(1, 2).reshape(-1, CLASSES)
        losses = F.cross_entropy(outputs, self._targets[indices], reduction="none").view(len(w), -1).mean(dim=1)
        slopes = torch.autograd.grad(losses.sum(), [weight, bias])
        gradients[:, : CLASSES * INPUTS].unflatten(1, (CLASSES, INPUTS)).copy_(slopes[0])
        gradients[:, CLASSES * INPUTS :].copy_(slopes[1])
        losses.tolist()
        w.mul_(1 - LR * WEIGHT_DECAY).add_(gradients, alpha=-LR)

    def close(self) -> None:
        pass


def tiny(repeats: int) -> dict[str, Result]:
    """Return seconds of a round client by client and vectorised: CPU seconds in process, the clock's with workers."""
    task = task_of(TINY)
    spread = partial(Rounds, problem=TINY, task=task, workers=2)
    rounds = partial(Rounds, problem=TINY, task=task, clock=time.process_time)
    makers = [
        partial(Bare, TINY, clock=time.process_time),
        partial(rounds, "fedavg, client by client, in process", vectorised=False),
        partial(spread, "fedavg, client by client, 2 workers", vectorised=False),
        partial(OneByOne, ONE_BY_ONE, problem=TINY, task=task, clock=time.process_time, vectorised=True),
        partial(rounds, "fedavg, vectorised, in process", vectorised=True),
        partial(spread, "fedavg, vectorised, 2 workers", vectorised=True),
        partial(Operations, 13),
    ]
    makers += [
        partial(rounds, f"{name}, vectorised, in process", method=name, vectorised=True) for name in TINY_METHODS
    ]
    return take_turns("tiny", makers, 4 * repeats)


GROUPS = (4, 8, 13, 16, 25)
"""Clients at a time in `operations`."""


def operations(repeats: int) -> dict[str, Result]:
    """Return CPU seconds of the tensor operations of `tiny` alone, beside the bare loop."""
    makers = [partial(Bare, TINY, clock=time.process_time), *(partial(Operations, count) for count in GROUPS)]
    return take_turns("operations", makers, 4 * repeats)


TINY_TARGETS = [
    Target("client by client / bare loop", ratio("fedavg, client by client, in process", "bare loop"), most=1.3),
    Target("vectorised / bare loop", ratio("fedavg, vectorised, in process", "bare loop"), most=0.35),
    Target(
        "tensor operations alone / bare loop (what 0.35 is to be held against)",
        ratio(f"{OPERATIONS}, 13 clients at a time", "bare loop"),
        least=0.0,
    ),
    Target("vectorised / steps one by one", ratio("fedavg, vectorised, in process", ONE_BY_ONE), most=1.0),
    Target("vectorised, 2 workers / bare loop", ratio("fedavg, vectorised, 2 workers", "bare loop"), most=0.35),
] + [
    Target(
        f"{name} / fedavg, vectorised, in process",
        ratio(f"{name}, vectorised, in process", "fedavg, vectorised, in process"),
        most=most,
    )
    for name, most in TINY_METHODS.items()
]


def lenet(repeats: int) -> dict[str, Result]:
    """Return CPU seconds of a round of LeNet beside its bare loop."""
    keep_freed_memory()  # for both: in process they share it
    makers = [
        partial(Bare, LENET, clock=time.process_time),
        partial(Rounds, "fedavg, in process", LENET, clock=time.process_time),
    ]
    return take_turns("lenet", makers, repeats)


LENET_TARGETS = [Target("in process / bare loop", ratio("fedavg, in process", "bare loop"), most=1.05)]
