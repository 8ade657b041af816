"""`flatfed study draw`: the figures of a study, drawn from its finished runs; `study run` ends with the same."""

from __future__ import annotations

from dataclasses import replace
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
    from flatfed.studies.study import Study

FAILED = 1


@click.command(cls=GroupedCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@option("--file", "Take the figures from this file.  [default: the study's own]", click.Path(path_type=Path))
@option("--again", "Draw all of them, also those that are there and unchanged.", is_flag=True)
@option("--jobs", "Worker processes.  [default: as many as there are cores]", Whole(1))
@trust_option
def draw(folder: Path, file: Path | None, again: bool, jobs: int | None, trust: bool) -> int:
    """Draw the figures of the study in FOLDER from the runs that have finished by now, into FOLDER/figures.

    Which figures these are is read from the study's file once more, so that they may be changed at any time. What was
    measured before is not measured again.
    """
    from flatfed.named_code import NamedBy
    from flatfed.studies.folder import FILE
    from flatfed.studies.run_study import RunningStudy

    study = _with_figures(folder, file)
    if not study.report.figures:
        raise ConfigError(f"the study in {folder} has no figures; add report: {{figures: ...}} to its file")
    running = RunningStudy(study, folder, NamedBy(folder / FILE, trust, folder))
    return draw_and_tell(running, jobs, again)


def _with_figures(folder: Path, file: Path | None) -> Study:
    """Return the study of a folder, with the figures that its file has now."""
    from flatfed.studies.entering import recorded_study
    from flatfed.studies.folder import StudyFolder
    from flatfed.studies.reading import read_study
    from flatfed.studies.study import FaultyStudyError

    opened = StudyFolder(folder)
    study = recorded_study(opened)
    recorded = str(opened.record().get("file") or "")
    if file is None and recorded:
        if not Path(recorded).exists():
            echo(f"{recorded} is not there any more; the figures are those of the last study run", err=True)
            return study
        file = Path(recorded)
    if file is None:
        return study
    figures = read_study(file).report.figures
    try:
        return replace(study, report=replace(study.report, figures=figures))
    except FaultyStudyError as error:
        raise ConfigError(f"{file} and {folder} differ in more than figures; run the study first: {error}") from None


def draw_and_tell(running: RunningStudy, jobs: int | None, again: bool = False) -> int:
    """Draw the figures of a study, tell what became of them, and return the exit code."""
    from flatfed.studies.drawing.draw_figures import FOLDER, draw_figures

    with (
        StepProgress("steps") as progress,
        interruptible("interrupted; what was measured is kept, and the same command goes on"),
    ):
        result = draw_figures(running, progress, _workers(jobs), again)
    counts = {"drawn": result.drawn, "unchanged": result.unchanged, "not drawn": result.failed}
    words = [f"{len(names)} {word}" for word, names in counts.items() if names]
    if words:
        echo(f"figures in {running.folder.path / FOLDER}: {', '.join(words)}", err=True)
    return FAILED if result.failed else 0


def _workers(jobs: int | None) -> int | str:
    """Return the worker processes: one more than this process is worth it from two on."""
    if jobs is None:
        return "auto"
    return jobs if jobs > 1 else 0
