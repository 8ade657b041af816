"""`branch`: another run's state, an average from there on; the same bits as if it had been there from the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from flatfed.algorithms.spelling import spelling_of
from flatfed.core.errors import PARAMETER, CheckpointError, ConfigError
from flatfed.core.method.algorithm import Average
from flatfed.core.method.engine import Engine
from flatfed.core.task.task import Task
from flatfed.data.tables.preprocessing import KEY as PREPROCESSING
from flatfed.engines.choice import EngineConfig, Workers, chosen
from flatfed.experiments.planning.outside_parts import record_of_code, with_accepted_code
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.planning.setting import describe
from flatfed.experiments.running.play import branch_play
from flatfed.experiments.running.run import Run, open_run, with_data
from flatfed.experiments.tasks.recipe import TENSORS, accepted, remember, task_of
from flatfed.runs.checkpoints import Loaded
from flatfed.runs.directory import BRANCH, RunDirectory
from flatfed.runs.history import Row
from flatfed.runs.records.files import read_whole, refuse_way_out, replace_file, write_json

Say = Callable[[str], None]


def branch(
    path: str | Path,
    average: Average,
    out: str | Path,
    *,
    round: int | None = None,
    rounds: int | None = None,
    task: Task | None = None,
    trust: bool = False,
    accept_changed_data: bool = False,
    accept_changed_code: bool = False,
    data_dir: str | Path | None = None,
    workers: Workers | None = None,
    engine: str | EngineConfig | Engine | None = None,
    on_round: Callable[[Row], None] | None = None,
    say: Say = lambda text: None,
    about: dict[str, str] | None = None,
    on_begin: Callable[[dict[str, Any], int], None] = lambda config, done: None,
) -> Run:
    """Train on from a checkpoint of the run in `path` with an average, in a new run directory; return the new run.

    The result is that of the whole run with the average, to the bit: until the average begins the two are the same.
    The run in `path` is only read.

    Args:
        path: the run directory to start from; its method has no average.
        average: `ff.SWA(...)`, say.
        out: the run directory to make.
        round: branch after n rounds; by default from the newest checkpoint before the average begins.
        rounds: total number of rounds of the new run; None takes the old one's.
        task: needed only where the run was made from objects that no file can describe.
        trust: import the code that the run names, wherever it comes from: only for a run of somebody you trust.
        accept_changed_data: open it although its examples, labels or partition are not those that it was made with.
        accept_changed_code: go on although a part from outside flatfed is other code than when the run was made.
        data_dir: where the data sets lie, if no longer where they were.
        workers: another number of worker processes; results do not depend on it.
        engine: another engine, as in `ff.train`; results do not depend on it.
        on_round: called with each new history row.
        say: called with remarks, such as a checkpoint that had to be passed over.
        about: kept with the new run for reports.
        on_begin: called with the new run's record and the round to go on from, when nothing was refused.
    """
    source = with_data(open_run(Path(path), trust, accept_changed_data), data_dir)
    plan = branched_plan(source, average, rounds, task, remembered=data_dir is None).with_workers(
        chosen(engine, workers)
    )
    source = with_accepted_code(accepted(source, plan.task), plan, accept_changed_code)
    # What may be refused comes before the new directory is made, so that none is left behind.
    start = _start(source, plan, round, say)
    rows = _taken_over(source, plan, start.round)
    recipe = source.config["task"]
    record = {"task": recipe, **record_of_code(plan, recipe), "setting": describe(plan), "about": about or {}}
    if PREPROCESSING in source.config:
        record[PREPROCESSING] = source.config[PREPROCESSING]
    directory = RunDirectory.create(Path(out), plan.to_config() | record)
    with directory.lock():
        directory.begin()
        on_begin(directory.config, start.round)
        if (source.path / TENSORS).exists():
            refuse_way_out(source.path / TENSORS, source.path)
            # A copy, so that the new run does not need the old one's directory.
            replace_file(directory.path / TENSORS, read_whole(source.path / TENSORS))
        origin = {"run": source.config["run"], "path": str(source.path.resolve()), "round": start.round}
        write_json(directory.path / BRANCH, origin)
        remember(directory.path, plan.task)
        return branch_play(plan, directory, start, rows, on_round)


def branched_plan(
    source: RunDirectory, average: Average, rounds: int | None, task: Task | None = None, remembered: bool = True
) -> Plan:
    """Return the plan of a run with the average that it did not have, checked."""
    if not isinstance(average, Average):
        raise ConfigError(f"average must be ff.SWA(...) or another average, not {average!r:.60}")
    there = source.config["average"]
    if there is not None:
        raise ConfigError(f"{source.path} has an average already, {there['id']}; branch from a run without one")
    plan = Plan.from_config(source.config, task or task_of(source, remembered), rounds, source.named_by)
    plan = replace(plan, average=average)
    plan.check()
    return plan


def _start(source: RunDirectory, plan: Plan, round: int | None, say: Say) -> Loaded:
    """Return the checkpoint to begin with: the one asked for, or the newest good one that is early enough."""
    assert plan.average is not None
    name, first = plan.average.id, plan.average.first(plan.settings.rounds)
    if round is not None and round > first:
        raise ConfigError(f"{name} begins after {first} rounds of {plan.settings.rounds}; round {round} is too late")
    for early in _candidates(source, round, first):
        try:
            return source.checkpoints.load(early, source.check_config_mark)
        except CheckpointError as error:
            say(f"checkpoint of round {early} cannot be used: {error}")
    if first == 0:
        whole = spelling_of(plan.algorithm, plan.average)
        raise ConfigError(f"{name} begins in the first round, so a branch would save nothing; train {whole} instead")
    raise CheckpointError(
        f"{source.path}: {name} begins after {first} rounds of {plan.settings.rounds}, and there is no good checkpoint "
        f"that early (there are those of the rounds {_rounds_there(source)}); train with {PARAMETER} {first}",
        parameter="keep_checkpoints",
    )


def _candidates(source: RunDirectory, round: int | None, first: int) -> list[int]:
    """Return the checkpoints to try: the one that is asked for, or all that are early enough, newest first."""
    rounds = source.checkpoints.rounds()
    if round is None:
        return [known for known in rounds if known <= first]
    if round not in rounds:
        there = _rounds_there(source)
        raise CheckpointError(f"{source.path} has no checkpoint of round {round}; there are those of {there}")
    return [round]


def _rounds_there(source: RunDirectory) -> str:
    return ", ".join(map(str, sorted(source.checkpoints.rounds()))) or "none"


def _taken_over(source: RunDirectory, plan: Plan, round: int) -> list[Row]:
    """Return the history up to a round, with the evaluations that the new run would have made."""
    rows = [row for row in source.rows if row["round"] < round]
    if [row["round"] for row in rows] != list(range(round)):
        raise CheckpointError(f"{source.path}/history.jsonl does not hold the {round} rounds before the checkpoint")
    return [_as_evaluated(source, plan, row) for row in rows]


def _as_evaluated(source: RunDirectory, plan: Plan, row: dict[str, Any]) -> Row:
    """Return a row without metrics of an evaluation that the new run would not have made; one too few is an error."""
    prefixes = tuple(f"{test}_" for test in plan.task.test_sets)
    if not plan.settings.evaluates(row["round"]):
        # A shorter run evaluated its last rounds, which are not the last ones of a longer one.
        return {name: value for name, value in row.items() if not name.startswith(prefixes)}
    if prefixes and not any(name.startswith(prefixes) for name in row):
        raise ConfigError(
            f"{source.path} was not evaluated after round {row['round'] + 1}, as a run of {plan.settings.rounds} "
            "rounds would be; branch from an earlier checkpoint, or over more rounds"
        )
    return row
