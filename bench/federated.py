"""flatfed doing a workload one round at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from problems import LR, WEIGHT_DECAY, Problem

import flatfed as ff
from flatfed.algorithms.spelling import parse_method
from flatfed.core.configuration.settings import Settings
from flatfed.core.round.federation import Federation
from flatfed.core.round.sampling import Uniform
from flatfed.core.task.examples import Partition
from flatfed.engines.choice import Workers
from flatfed.experiments.planning.plan import Plan

ENDLESS = 1_000_000


def task_of(problem: Problem, test: Any = None) -> ff.Task:
    inputs, targets = problem.data()
    numbers = torch.arange(len(inputs)).split(problem.samples)
    return ff.Task(problem.fresh_model(), Partition(inputs, targets, numbers), test=test, loss=problem.loss)


class Rounds:
    """A method on a problem; evaluated now and then where asked."""

    def __init__(
        self,
        name: str,
        problem: Problem,
        method: str = "fedavg",
        workers: Workers = 0,
        vectorised: bool | None = None,
        task: ff.Task | None = None,
        per_round: int | None = None,
        evaluate_every: int = ENDLESS,
        clock: Callable[[], float] = time.perf_counter,
        cohort_memory: str = "2GB",
    ) -> None:
        self.name, self._clock = name, clock
        settings = Settings(
            rounds=ENDLESS,
            lr=LR,
            weight_decay=WEIGHT_DECAY,
            batch_size=problem.batch_size,
            evaluate_every=evaluate_every,
            evaluate_last=0,
            vectorised=vectorised,
            cohort_memory=cohort_memory,
        )
        chosen = parse_method(method)
        self.plan = Plan(
            task or task_of(problem),
            chosen.algorithm,
            settings,
            Uniform(per_round or problem.per_round),
            chosen.average,
            workers,
        )
        self.engine = self.plan.engine()
        self.federation: Federation = self.plan.federation(self.engine)
        self._rows: Iterator[dict[str, Any]] = self.federation.rounds()

    def round(self) -> float:
        started = self._clock()
        next(self._rows)
        return self._clock() - started

    def close(self) -> None:
        self.engine.close()
