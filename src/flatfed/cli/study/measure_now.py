"""`flatfed study measure`: the final models of runs that have ended, measured; `study run` does the same at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.groups import GroupedCommand, option, trust_option
from flatfed.cli.options.values import Whole
from flatfed.cli.output.progress import StepProgress, interruptible
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.studies.run_study import RunningStudy

PATIENCE = 60.0
"""Seconds after which a run is measured that somebody else was about, without a sign of life."""


@click.command(cls=GroupedCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@option("--jobs", "Worker processes.  [default: as many as there are cores]", Whole(1))
@trust_option
def measure(folder: Path, jobs: int | None, trust: bool) -> int:
    """Measure the final models of the study in FOLDER that have ended by now, as its file says under `flatness`.

    `study run` does so when all cells have ended. Here it is done at any time, also while the study runs, so that
    `study pack` has the measurements of each cell that is there. What was measured before is not measured again.
    """
    from flatfed.machine import usable_cores
    from flatfed.named_code import NamedBy
    from flatfed.studies.entering import recorded_study
    from flatfed.studies.folder import FILE, StudyFolder
    from flatfed.studies.reporting.measuring import unmeasured
    from flatfed.studies.run_study import RunningStudy

    study = recorded_study(StudyFolder(folder))
    if not study.report.flatness:
        raise ConfigError(f"the study in {folder} measures nothing; add report: {{flatness: true}} to its file")
    running = RunningStudy(study, folder, NamedBy(folder / FILE, trust, folder))
    count = len(unmeasured(running))
    measure_and_show(running, jobs or usable_cores(), PATIENCE)
    left = len(unmeasured(running))
    echo(f"runs measured: {count - left}" + (f"; {left} could not be, or not wholly" if left else ""))
    return 1 if left else 0


def measure_and_show(running: RunningStudy, jobs: int, lease: float) -> None:
    """Measure the final models of runs that have ended, where the study says so, and show how far it is."""
    from flatfed.cli.output.results import command_line
    from flatfed.studies.reporting.measuring import measure_study

    if not running.study.report.flatness:
        return
    remark = f"interrupted; what was measured is kept. Go on with: {command_line()}"
    with StepProgress("runs", at_once=False) as progress, interruptible(remark):
        measure_study(running, progress.show, progress.say, jobs if jobs > 1 else 0, lease)
