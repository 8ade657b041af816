"""Small models: a linear one, where most of a step is not arithmetic, and LeNet, where most of it is."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from bare import Bare
from federated import Rounds, task_of
from harness import Result, Target, ratio, take_turns
from problems import LENET, TINY

from flatfed.machine import keep_freed_memory

TINY_METHODS = {"fedsam": 2.1, "scaffold": 1.3}
"""How many times as long as fedavg each may take."""


ONE_BY_ONE = "fedavg, vectorised, steps one by one, in process"


class OneByOne(Rounds):
    """Vectorised clients of which each takes its own Python steps: what a method that is not row by row comes to."""

    def __init__(self, name: str, **arguments: Any) -> None:
        super().__init__(name, **arguments)
        self.engine._trainer.vectorised_clients.is_row_wise = False


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
    ]
    makers += [
        partial(rounds, f"{name}, vectorised, in process", method=name, vectorised=True) for name in TINY_METHODS
    ]
    return take_turns("tiny", makers, 4 * repeats)


TINY_TARGETS = [
    Target("client by client / bare loop", ratio("fedavg, client by client, in process", "bare loop"), most=1.3),
    Target("vectorised / bare loop", ratio("fedavg, vectorised, in process", "bare loop"), most=0.35),
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
