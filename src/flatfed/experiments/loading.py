"""A run from its directory, to look at: nothing is trained and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from flatfed.core.errors import ConfigError
from flatfed.core.loop import Federation, Status
from flatfed.core.task import Task
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.plan import Plan, restore
from flatfed.experiments.run import Run
from flatfed.experiments.tasks import task_of
from flatfed.runs.directory import RunDirectory

Say = Callable[[str], None]


def load_run(
    path: str | Path,
    *,
    task: Task | None = None,
    data_dir: str | Path | None = None,
    say: Say = lambda text: None,
) -> Run:
    """Return the run in `path` as its newest good checkpoint has it: model, states, and the history up to there.

    Args:
        path: the run directory.
        task: needed only where the run was made from objects that no file can describe.
        data_dir: where the data sets lie, if no longer where they were.
        say: called with remarks, such as a checkpoint that had to be passed over.
    """
    directory = RunDirectory.open(Path(path))
    _, federation = restored(directory, task, data_dir, say)
    rows = [row for row in directory.history().rows if row["round"] < federation.round]
    return Run(federation, rows, directory.path)


def restored(
    directory: RunDirectory,
    task: Task | None = None,
    data_dir: str | Path | None = None,
    say: Say = lambda text: None,
) -> tuple[Plan, Federation]:
    """Return a run's plan and its federation as the newest good checkpoint has it."""
    plan = Plan.from_config(
        directory.config, task or task_of(_with_data(directory, data_dir), remembered=data_dir is None), rounds=None
    )
    loaded = directory.checkpoints.load_newest(say)
    federation = plan.federation(InProcessEngine(plan.task, plan.algorithm, plan.settings))
    restore(federation, loaded.round, loaded.tensors, loaded.states)
    standing = directory.status()
    federation.status, federation.reason = cast(Status, standing["status"]), standing["reason"]
    return plan, federation


def _with_data(directory: RunDirectory, data_dir: str | Path | None) -> RunDirectory:
    """Return the run as if its data lay elsewhere."""
    if data_dir is None:
        return directory
    recipe = directory.config["task"]
    if recipe["kind"] != "catalogue":
        raise ConfigError(f"--data-dir: the data of {directory.path} do not come from a data directory")
    return RunDirectory(directory.path, directory.config | {"task": recipe | {"data_dir": str(data_dir)}})
