"""What a run was before its last round, from its checkpoints: for measurements of the local models of that round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flatfed.core.errors import CheckpointError
from flatfed.core.round.engine import Engine
from flatfed.core.round.federation import Federation, Past
from flatfed.experiments.running.plan import Plan, restore
from flatfed.runs.directory import RunDirectory


def past_of(directory: RunDirectory, plan: Plan, round: int, say: Callable[[str], None], engine: Engine) -> Past:
    """Return the run as it was before its `round`-th round, and who took part in that.

    The newest checkpoint before it is taken; where that is earlier, the rounds between are played again, in memory and
    to the same bits.
    """
    earlier = [kept for kept in directory.checkpoints.rounds() if kept < round]
    if not earlier:
        there = ", ".join(map(str, sorted(directory.checkpoints.rounds()))) or "none"
        raise CheckpointError(
            f"{directory.path}: the local models of round {round} come from a checkpoint before it, and there are only "
            f"those of the rounds {there}; measure with round=next"
        )
    before = _replayed(directory, plan, earlier[0], round - 1, say, engine)
    rows = [row for row in directory.history().rows if row["round"] == round - 1]
    cohort = rows[0]["clients"] if rows else plan.sampler.draw(plan.task.population, plan.settings.seed, round - 1, 0)
    return Past(before, cohort)


def _replayed(
    directory: RunDirectory, plan: Plan, start: int, end: int, say: Callable[[str], None], engine: Engine
) -> Federation:
    """Return the federation before round `end`, played on from an earlier checkpoint without evaluations."""
    quiet = replace(plan, settings=plan.settings.replace(every=plan.settings.rounds, last=0), watch=())
    federation = quiet.federation(engine)
    loaded = directory.checkpoints.load(start)
    restore(federation, loaded.round, loaded.tensors, loaded.states)
    if start < end:
        say(f"{directory.path}: playing rounds {start + 1} to {end} again, to have the state before round {end + 1}")
    rounds = federation.rounds()
    while federation.round < end:
        next(rounds)
    return federation
