"""What one cell would take: time by steps or rounds that are really taken, bytes on disk, and bytes exchanged."""

from __future__ import annotations

from dataclasses import dataclass

from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import Costs
from flatfed.studies.checking.timing import TRIES, Pace, played

AFFORDABLE_SECONDS = 2.0
"""A method whose rounds would take longer than this to play is estimated by its steps."""
ROW_BYTES = 500
"""About what a row of a history takes."""
KEPT = 2
"""Checkpoints that are kept."""


@dataclass(frozen=True)
class Estimate:
    """What one cell takes, about."""

    seconds: float
    disk: int
    exchanged: int


@dataclass(frozen=True)
class RoundTime:
    """Seconds of a round, and of an evaluation."""

    round: float
    evaluation: float


def time_of_round(plan: Plan, pace: Pace, counted: Costs) -> RoundTime:
    """Return how long a round takes: by rounds that are played where that is affordable, else by steps."""
    task, settings = plan.task, plan.settings
    mean_samples = sum(task.samples(client) for client in range(task.population)) / task.population
    batch = settings.batch_size or mean_samples
    steps = settings.local_epochs * max(1.0, -(-mean_samples // batch))
    of_step = pace.batch + counted.backprops * pace.backprop
    of_pass = mean_samples / batch * (pace.batch + pace.backprop)
    round = _clients_per_round(plan) * (steps * of_step + counted.passes * of_pass)
    evaluation = sum(len(test) for test in task.test_sets.values()) * pace.example
    if (round + evaluation) * (TRIES + 1) <= AFFORDABLE_SECONDS:
        return RoundTime(*played(plan))
    return RoundTime(round, evaluation)


def estimate(plan: Plan, time: RoundTime, counted: Costs) -> Estimate:
    """Return what a cell takes, without what it watches."""
    task, settings = plan.task, plan.settings
    clients = _clients_per_round(plan)
    evaluations = sum(settings.evaluates(number) for number in range(settings.rounds))
    vector = task.layout().shared * settings.torch_dtype.itemsize
    met = min(task.population, settings.rounds * clients)
    states = len(counted.server_state) + 1 + met * len(counted.client_state) / KEPT
    disk = settings.rounds * ROW_BYTES + KEPT * vector * states
    exchanged = settings.rounds * clients * (counted.down + counted.up) * vector
    return Estimate(settings.rounds * time.round + evaluations * time.evaluation, int(disk), int(exchanged))


def _clients_per_round(plan: Plan) -> float:
    return plan.sampler.expected(plan.task.population)
