"""A run from its directory, to look at: nothing is trained and nothing is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from flatfed.core.errors import ConfigError, listed
from flatfed.core.round.federation import Federation, Status
from flatfed.core.task.task import Task
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.run import Run
from flatfed.experiments.tasks.recipe import task_of
from flatfed.runs.checkpoints import Loaded
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.federation_state import restore

Say = Callable[[str], None]


def warned(text: str) -> None:
    """Say a remark where nobody is there to hear it."""
    warnings.warn(text, stacklevel=2)


def load_run(
    path: str | Path,
    *,
    task: Task | None = None,
    trust: bool = False,
    data_dir: str | Path | None = None,
    say: Say = warned,
    accept_changed_data: bool = False,
) -> Run:
    """Return the run in `path` as its newest good checkpoint has it: model, states, and the history up to there.

    Args:
        path: the run directory.
        task: needed only where the run was made from objects that no file can describe.
        trust: import the code that the run names, wherever it comes from: only for a run of somebody you trust.
        data_dir: where the data sets lie, if no longer where they were.
        say: called with remarks, such as a checkpoint that had to be passed over; they are warnings by default.
        accept_changed_data: open it although examples, labels or partition are not those that the run was made with.
    """
    directory = open_run(Path(path), trust, accept_changed_data)
    _, federation = restored(directory, task, data_dir, say)
    # The history may be ahead of the newest good checkpoint.
    rows = [row for row in directory.rows if row["round"] < federation.round]
    return Run(federation, rows, directory)


def restored(
    directory: RunDirectory,
    task: Task | None = None,
    data_dir: str | Path | None = None,
    say: Say = lambda text: None,
    round: int | None = None,
) -> tuple[Plan, Federation]:
    """Return a run's plan and its federation as a round's checkpoint has it, or the newest good one."""
    if task is None:
        task = task_of(with_data(directory, data_dir), remembered=data_dir is None)
    plan = Plan.from_config(directory.config, task, rounds=None, by=directory.named_by)
    loaded = _loaded(directory, round, say)
    # To look at a run needs no workers; whoever measures starts some.
    federation = plan.federation(InProcessEngine(plan.task, plan.algorithm, plan.settings))
    restore(federation, loaded.round, loaded.tensors, loaded.states)
    standing = directory.status()
    federation.status, federation.reason = cast(Status, standing["status"]), standing["reason"]
    return plan, federation


def _loaded(directory: RunDirectory, round: int | None, say: Say) -> Loaded:
    if round is None:
        return directory.checkpoints.load_newest(say, directory.check_config_mark)
    return directory.checkpoints.load(round, directory.check_config_mark)


def open_run(path: Path, trust: bool = False, accept_changed_data: bool = False) -> RunDirectory:
    """Open a run directory; where a folder is a comparison's instead, say which runs it holds.

    With `trust` the code that the run names may be imported, wherever it comes from.
    """
    if not is_run(path):
        runs = sorted(str(file.parent.relative_to(path)) for file in path.glob("*/*/config.json"))
        if runs:
            raise ConfigError(f"{path} is not a run directory; name one of the runs in it: {listed(runs)}")
    return RunDirectory.open(path, trust, accept_changed_data)


def with_data(directory: RunDirectory, data_dir: str | Path | None) -> RunDirectory:
    """Return the run as if its data lay elsewhere."""
    if data_dir is None:
        return directory
    recipe = directory.config["task"]
    if recipe["kind"] != "catalogue":
        raise ConfigError(f"data_dir: the data of {directory.path} do not come from a data directory")
    return directory.with_config(task=moved(recipe, data_dir))


def moved(recipe: dict[str, Any], data_dir: str | Path) -> dict[str, Any]:
    """Return the recipe of a task whose data lie in another data directory.

    Files and folders of one's own that are no longer where they were are looked for there under their names.
    """
    if not str(data_dir):  # back to where data sets lie by default
        return recipe | {"data_dir": None}
    place = Path(data_dir).expanduser().absolute()
    options = {name: _moved_paths(recipe.get(name, {}), place) for name in ("data_options", "partition")}
    return recipe | {"data_dir": str(place)} | options


def _moved_paths(options: dict[str, Any], place: Path) -> dict[str, Any]:
    """Return options with the paths that are gone, but have a namesake in the data directory, leading there."""
    return {name: _moved_path(value, place) for name, value in options.items()}


def _moved_path(value: Any, place: Path) -> Any:
    # Only absolute paths: another option's word may happen to be the name of a file.
    if not isinstance(value, str) or not value.startswith("/") or Path(value).exists():
        return value
    namesake = place / Path(value).name
    return str(namesake) if namesake.exists() else value
