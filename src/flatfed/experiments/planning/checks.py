"""What is looked at before a plan is played: what cannot be is refused, what is only approximate is warned of."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from flatfed.core.configuration.checking import checked
from flatfed.core.configuration.ranges import Count
from flatfed.core.errors import PARAMETER, ConfigError, ConfigWarning
from flatfed.core.evaluation.evaluator import Evaluator, NoStatistics
from flatfed.core.evaluation.statistics import has_batch_norm, has_local_statistics, test_chunks
from flatfed.core.model.devices import find_device
from flatfed.core.randomness import preserved_global_state
from flatfed.core.round.sampling import Uniform
from flatfed.core.round.vectorising import check_vectorised
from flatfed.core.threads import single_thread

if TYPE_CHECKING:
    from flatfed.experiments.planning.plan import Plan


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be played, and warn of what is only approximate."""
    plan.sampler.check(plan.task.population, plan.settings.rounds)
    _check_checkpoints(plan)
    _check_statistics(plan)
    find_device(plan.settings.device)
    check_vectorised(plan.task, plan.settings)
    _check_replies(plan)
    _check_learning_rate(plan)
    _check_schedules(plan)
    _check_monitors(plan)
    _warn_of_momentum(plan)


def _check_checkpoints(plan: Plan) -> None:
    """Refuse checkpoints of rounds that there are not."""
    rounds = plan.settings.rounds
    checked(Count | None, plan.checkpoint_every, "checkpoint_every")
    for round in plan.keep_checkpoints:
        if round > rounds:
            raise ConfigError(
                f"{PARAMETER}: {round} is beyond the {rounds} rounds of the run", parameter="keep_checkpoints"
            )


def _check_statistics(plan: Plan) -> None:
    """Refuse an evaluation for which there are no statistics."""
    policy = plan.settings.eval_stats
    if policy == "running" and has_local_statistics(plan.task.layout()):
        raise ConfigError(
            "the statistics stay on the clients, so there are no running ones to evaluate with; take batch-stats or "
            f"recalibrate for {PARAMETER}",
            parameter="eval_stats",
        )
    if policy == "batch-stats" and has_batch_norm(plan.task.model):
        _try_single_examples(plan)


def _try_single_examples(plan: Plan) -> None:
    """Refuse a test set that leaves a batch of one example without statistics (a whole picture may be enough)."""
    single = [chunk for chunk in test_chunks(plan.task) if chunk[2] == 1]
    if not single:
        return
    test, first, count = single[0]
    evaluator = Evaluator(plan.task, plan.settings)
    shared = evaluator.oracle.w[: evaluator.layout.shared].clone()
    try:
        with single_thread(), preserved_global_state():
            evaluator.measure(shared, {}, test, first, count)
    except NoStatistics as error:
        raise ConfigError(f"the {test} set: {error}") from None


def _check_replies(plan: Plan) -> None:
    needed = plan.settings.min_replies
    if isinstance(plan.sampler, Uniform) and needed > plan.sampler.count:
        raise ConfigError(f"min_replies={needed} can never be met with {plan.sampler.count} clients per round")


def _check_learning_rate(plan: Plan) -> None:
    if not plan.algorithm.assumes_plain_steps:
        return
    # Every round: a schedule, or the cycle of SWA, may come down to 0 in some of them.
    if any(plan.lr(round) == 0 for round in range(plan.settings.rounds)):
        raise ConfigError(f"{plan.algorithm.id} divides by the learning rate, which may not be 0 in any round")


def _check_schedules(plan: Plan) -> None:
    """Try every round's numbers: together they may be refused, though each is within its range."""
    if not plan.algorithm.varying and not plan.settings.varying:
        return
    for round in range(plan.settings.rounds):
        plan.algorithm.at(round)
        plan.settings.at(round)


def _check_monitors(plan: Plan) -> None:
    for monitor in plan.watch:
        # For its refusal alone, of examples that the task does not have.
        monitor.sample.count(plan.task)
        unfit = monitor.measurement.unfit(plan.algorithm)
        if unfit:
            warnings.warn(ConfigWarning(f"{PARAMETER}: {unfit}; left out", parameter="watch"), stacklevel=4)


def _warn_of_momentum(plan: Plan) -> None:
    if not plan.algorithm.assumes_plain_steps:
        return
    if any(plan.settings.at(round).momentum > 0 for round in range(plan.settings.rounds)):
        warnings.warn(
            f"{plan.algorithm.id} divides updates by K * lr, which is exact only without client momentum; "
            f"its formulas are used unchanged with momentum={plan.settings.momentum}",
            stacklevel=4,
        )
