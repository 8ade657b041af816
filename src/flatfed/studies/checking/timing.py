"""How long steps, evaluations and rounds take here, by CPU time: what others do on the machine is no part of it.

A cell is trained by one process with one thread, so the time of its process is the time that it takes on a core of its
own. By the clock on the wall, a machine on which others work would seem slower than it is.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from flatfed.core.evaluation.evaluator import Evaluations, Evaluator
from flatfed.core.model.devices import single_thread
from flatfed.core.randomness import preserved_global_state, torch_generator
from flatfed.core.round.federation import Federation
from flatfed.core.round.trainer import no_pulse
from flatfed.experiments.planning.plan import Plan

T = TypeVar("T")

TRIES = 3
UNEVALUATED = 1_000_000
"""Rounds of a run so long that none of those that are played is evaluated."""


@dataclass(frozen=True)
class Pace:
    """Seconds on this machine: to draw a batch, of a backprop on it, and of the evaluation of an example."""

    batch: float
    backprop: float
    example: float
    examples: int
    """How many a batch holds."""

    @property
    def backprop_of_example(self) -> float:
        """Seconds of a backprop on one example of a batch."""
        return self.backprop / self.examples


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Do something, and return what came of it and the CPU time that this process spent on it."""
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def cpu_seconds(work: Callable[[], object]) -> float:
    """Do something, and return the CPU time that this process spent on it."""
    return timed(work)[1]


def typical(work: Callable[[], object]) -> float:
    """Do something some times, and return the CPU time that it takes, as a rule."""
    return statistics.median(cpu_seconds(work) for _ in range(TRIES))


def measure(plan: Plan) -> Pace:
    """Draw batches of a task, and take gradients on one; the first is left out, as it allocates."""
    task, settings = plan.task, plan.settings
    with single_thread(), preserved_global_state():
        oracle = Evaluator(task, settings).oracle
        largest = max(range(task.population), key=task.samples)
        examples = task.examples(largest)
        count = min(len(examples), settings.batch_size or len(examples))
        generator = torch_generator(0, "check")

        def batch() -> tuple[torch.Tensor, torch.Tensor]:
            inputs, targets = examples.batch(torch.arange(count))
            if task.augment is not None:
                inputs = task.augment(inputs, generator)
            return oracle.batch(inputs, targets)

        first = batch()
        oracle.gradient(*first)
        backprop = typical(lambda: oracle.gradient(*first))
        return Pace(typical(batch), backprop, backprop / (3 * count), count)


@contextmanager
def tried(plan: Plan) -> Iterator[Federation]:
    """Give the federation of a plan in this process, before its first round, without what it watches."""
    settings = replace(plan.settings, rounds=UNEVALUATED, evaluate_every=UNEVALUATED, evaluate_last=1)
    with single_thread(), preserved_global_state():
        trial = replace(plan, settings=settings, watch=())
        engine = trial.engine(no_pulse)
        try:
            yield trial.federation(engine)
        finally:
            engine.close()


def played(plan: Plan) -> tuple[float, float]:
    """Play some rounds, and return the seconds of a round and of an evaluation.

    Where steps are short, most of a round is what stands around them: batches, messages, sums of vectors.
    """
    with tried(plan) as federation:
        rounds = federation.rounds()
        # The first is left out: it allocates.
        next(rounds)
        round = typical(lambda: next(rounds, None))
        models = federation.evaluated, federation.server.w
        evaluation = typical(
            lambda: Evaluations(
                federation.engine, plan.task, federation.settings, *models, federation.server.buffers
            ).metrics()
        )
    return round, evaluation
