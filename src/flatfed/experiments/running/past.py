"""What a run was before its last round, from its checkpoints: for measurements of the local models of that round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flatfed.core.errors import CheckpointError
from flatfed.core.method.engine import Engine
from flatfed.core.round.federation import Federation, Past
from flatfed.experiments.planning.plan import Plan
from flatfed.runs.checkpoints import restore
from flatfed.runs.directory import RunDirectory


def past_of(directory: RunDirectory, plan: Plan, round: int, say: Callable[[str], None], engine: Engine) -> Past:
    """Return the run as it was before its `round`-th round, and who took part in that.

    The newest checkpoint before it is taken; where that is earlier, the rounds between are played again, in memory and
    to the same bits.
    """
    before = _replayed(directory, plan, _newest_before(directory, round), round - 1, say, engine)
    return Past(before, _cohort(directory, plan, round - 1))


def _newest_before(directory: RunDirectory, round: int) -> int:
    rounds = directory.checkpoints.rounds()
    for kept in rounds:  # newest first
        if kept < round:
            return kept
    there = ", ".join(map(str, sorted(rounds))) or "none"
    raise CheckpointError(
        f"{directory.path}: the local models of round {round} come from a checkpoint before it, and there are only "
        f"those of the rounds {there}; measure with round=next"
    )


def _cohort(directory: RunDirectory, plan: Plan, round: int) -> list[int]:
    """Return who took part in a round: as the history has it, or by the draw where the row is missing."""
    for row in directory.rows:
        # The history first: after a retry or a rejected update, those are not the clients of the first draw.
        if row["round"] == round:
            clients: list[int] = row["clients"]
            return clients
    return plan.sampler.draw(plan.task.population, plan.settings.seed, round, 0)


def _replayed(
    directory: RunDirectory, plan: Plan, start: int, end: int, say: Callable[[str], None], engine: Engine
) -> Federation:
    """Return the federation before round `end`, played on from an earlier checkpoint without evaluations."""
    # Evaluations and monitors change nothing of the state, so the rounds are the same without them.
    unevaluated = {"evaluate_every": plan.settings.rounds, "evaluate_last": 0}
    unending = {"stop_when": None, "patience": None, "keep_best": False}
    quiet = replace(plan, settings=plan.settings.replace(**unevaluated, **unending), watch=())
    federation = quiet.federation(engine)
    if federation.steering is not None:
        # The learning rate went by evaluations, which are in the history.
        federation.steering.take_all(directory.rows)
    loaded = directory.checkpoints.load(start)
    restore(federation, loaded.round, loaded.tensors, loaded.states)
    if start < end:
        say(f"{directory.path}: playing rounds {start + 1} to {end} again, to have the state before round {end + 1}")
    rounds = federation.rounds()
    while federation.round < end:
        next(rounds)
    return federation
