"""Which client is run when: the longest first, whoever was drawn first."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import flatfed as ff
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.engine import Job, Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.planning.plan import Plan

SIZES = (3, 9, 1, 9, 5)


class Watching(InProcessEngine):
    """Notes the order of the jobs, and how many states had been read when each was taken."""

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        self.announced, self.order = len(jobs), []
        return super().exchange(message, _noted(jobs, self.order))


class _noted:  # noqa: N801  (stands for a list)
    def __init__(self, jobs: Jobs, order: list[int]) -> None:
        self._jobs, self._order = jobs, order

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        for job in self._jobs:
            self._order.append(job.client)
            yield job


def test_the_longest_jobs_come_first() -> None:
    clients = [(torch.randn(n, 4), torch.zeros(n, dtype=torch.int64)) for n in SIZES]
    task = ff.Task(torch.nn.Linear(4, 2), clients)
    settings = Settings(rounds=1, lr=0.1, vectorised=False)
    plan = Plan(task, ff.make("fedavg"), settings, ff.Replay([[0, 1, 2, 3, 4]]), workers=0)
    engine = Watching(task, plan.algorithm, plan.settings)
    [row] = plan.federation(engine).rounds()
    assert engine.announced == 5
    assert engine.order == [1, 3, 4, 0, 2]
    assert row["clients"] == [0, 1, 2, 3, 4]
