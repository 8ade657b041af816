"""`resume`: go on with a run from its directory, to the same bits as if it had never stopped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.core.method.engine import Engine
from flatfed.core.task.task import Task
from flatfed.engines.choice import EngineConfig, Workers, chosen
from flatfed.experiments.planning.outside_parts import with_accepted_code
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.callbacks import Callbacks
from flatfed.experiments.running.interruption import RunInterrupted, returned
from flatfed.experiments.running.play import continue_play
from flatfed.experiments.running.run import STOPPING, Run, open_run, with_data
from flatfed.experiments.tasks.recipe import accepted, remember, task_of
from flatfed.runs.directory import RunDirectory
from flatfed.runs.environment import changes_since
from flatfed.runs.history import Row
from flatfed.runs.packed import refuse_packed
from flatfed.tracking.record import FOLDER, recorded_trackers
from flatfed.tracking.tracker import Track, Tracker, check_trackers
from flatfed.tracking.tracker import chosen as chosen_trackers


def resume(
    path: str | Path,
    rounds: int | None = None,
    *,
    task: Task | None = None,
    trust: bool = False,
    data_dir: str | Path | None = None,
    workers: Workers | None = None,
    engine: str | EngineConfig | Engine | None = None,
    cohort_memory: str | int | None = None,
    track: Track = None,
    on_round: Callable[[Row], None] | Callbacks | None = None,
    say: Callable[[str], None] = lambda text: None,
    accept_changed_data: bool = False,
    accept_changed_history: bool = False,
    accept_changed_code: bool = False,
) -> Run:
    """Continue the run in `path` and return it, also after Ctrl-C.

    Args:
        path: the run directory.
        rounds: a new total number of rounds; None keeps the run's own. A run that ended early goes on for as many, and
            what ended it (`stop_when`, `patience`) counts no more.
        task: needed only where the run was made from objects that no file can describe.
        trust: import the code that the run names, wherever it comes from: only for a run of somebody you trust.
        data_dir: where the data sets lie, if no longer where they were; the run takes note of it.
        workers: another number of worker processes; results do not depend on it.
        engine: another engine, as in `ff.train`; results do not depend on it.
        cohort_memory: another bound on the memory for replies and clients' states; results do not depend on it.
        track: trackers, as in `ff.train`; None goes on with those of before, `"none"` with none.
        on_round: called with each new history row; or `ff.Callbacks(...)`, as in `ff.train`.
        say: called with remarks, such as a checkpoint that had to be passed over.
        accept_changed_data: go on although examples, labels or partition are not those that the run was made with.
        accept_changed_history: go on although rows of the history were changed or lost, with those that can be read.
        accept_changed_code: go on although a part from outside flatfed is other code than when the run was made.
    """
    plan, directory = prepare(
        path,
        rounds,
        task=task,
        trust=trust,
        data_dir=data_dir,
        workers=chosen(engine, workers),
        cohort_memory=cohort_memory,
        accept_changed_data=accept_changed_data,
        accept_changed_code=accept_changed_code,
        track=track,
    )
    try:
        return continue_play(plan, directory, on_round, say, accept_changed_history)
    except RunInterrupted as interrupted:
        return returned(interrupted)


def prepare(
    path: str | Path,
    rounds: int | None = None,
    *,
    task: Task | None = None,
    trust: bool = False,
    data_dir: str | Path | None = None,
    workers: Workers | None = None,
    cohort_memory: str | int | None = None,
    accept_changed_data: bool = False,
    accept_changed_code: bool = False,
    opened: RunDirectory | None = None,
    track: Track = None,
    past_end: bool = True,
) -> tuple[Plan, RunDirectory]:
    """Return the plan of a run that is to go on, checked, and its directory, perhaps open already; nothing is written.

    One that is `opened` was trusted or not, and its data accepted or not, when it was opened. One that ended early goes
    on for the `rounds` that are given only with `past_end`.
    """
    directory = with_data(opened or open_run(Path(path), trust, accept_changed_data), data_dir)
    refuse_packed(directory.path)
    directory.refuse_unwritable()
    done = len(directory.recorded.rows)
    if rounds is not None and rounds < done:
        raise ConfigError(f"{path} has {done} rounds already; it cannot end after {rounds}")
    if task is None:
        # A task in memory has its data from the old place.
        task = task_of(directory, remembered=data_dir is None)
    directory = accepted(directory, task)
    plan = Plan.from_config(directory.config, task, rounds, directory.named_by)
    plan = plan.with_workers(workers).with_memory(cohort_memory)
    if rounds is not None and past_end and directory.ended_early:
        # Asked for by name: what ended it would end it again at once.
        plan = replace(plan, settings=plan.settings.replace(**dict.fromkeys(STOPPING)))
    if plan.average is not None and plan.settings.rounds != directory.config["settings"]["rounds"]:
        raise ConfigError(f"{plan.average.id} is laid out over the planned rounds; {path} cannot be made longer")
    plan.check()
    directory = with_accepted_code(directory, plan, accept_changed_code)
    plan = replace(plan, track=_trackers(directory, track))
    _tell_changes(directory)
    # Not before everything was checked: a task that does not fit must not be found again.
    remember(directory.path, task)
    return plan, directory


def _trackers(directory: RunDirectory, track: Track) -> tuple[Tracker, ...]:
    """Return where the run is sent: as is asked for, or as before."""
    if track is None:
        return recorded_trackers(directory.path) if (directory.path / FOLDER).is_dir() else ()
    trackers = chosen_trackers(track)
    check_trackers(trackers, has_directory=True)
    return trackers


def _tell_changes(directory: RunDirectory) -> None:
    """Warn where the machine or the libraries are others than those that the run began with."""
    changes = changes_since(directory.path)
    if changes:
        warnings.warn(
            f"{directory.path}: the bits may differ from those of a run without a stop: {changes}", stacklevel=3
        )
