"""What is kept of a cell that has ended: settings, versions, how it ended, the thinned history, and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flatfed.core.errors import CheckpointError
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.environment import read_environment
from flatfed.runs.packed import newest_round
from flatfed.runs.records.files import FORMAT
from flatfed.runs.results import KeptResults
from flatfed.studies.cells import Cell
from flatfed.studies.folder import Standing, StudyFolder
from flatfed.studies.packing.blocks import blocks_of
from flatfed.studies.packing.thinning import thinned
from flatfed.studies.packing.without_places import without_places

Record = dict[str, Any]
OF_MACHINE = ("python", "machine", "cpu", "packages")
"""What decides bits; the name of the system and the like do not."""


def packed_cell(folder: StudyFolder, cell: Cell, standing: Standing) -> Record:
    """Return the compact result of a cell that has ended."""
    record: Record = {
        "format": FORMAT,
        "path": cell.path.as_posix(),
        "key": cell.key,
        "name": cell.name,
        "state": standing.state,
        "reason": without_places(standing.reason),
        "description": without_places(folder.begun_as(cell)),
    }
    run = folder.run_of(cell)
    if is_run(run):
        try:
            record |= _of_run(run, short=cell.chooses or cell.trial is not None)
        except CheckpointError:
            # It failed because it cannot be read, and that is said.
            if standing.state != "failed":
                raise
    return record


def _of_run(run: Path, short: bool) -> Record:
    directory = RunDirectory.open(run)
    rows = directory.rows
    newest = newest_round(run, directory.checkpoints.rounds())
    environment = read_environment(run)
    measured = [{"key": key, "result": result} for key, result in KeptResults(run).of_round(newest)]
    return {
        "config": _config(directory.config),
        "environment": {name: environment[name] for name in OF_MACHINE if name in environment},
        "rounds": len(rows),
        "newest": newest[0] if newest else None,
        "history": blocks_of(without_places(thinned(rows, short))),
        "measured": without_places(measured),
    }


def _config(config: Mapping[str, Any]) -> Record:
    """Return a run's configuration without where its data and its code lie."""
    plain: Record = without_places({name: value for name, value in config.items() if name != "about"})
    plain["code"] = {}
    if "data_dir" in plain["task"]:
        plain["task"]["data_dir"] = None
    return plain | {"about": {}}
