"""`flatfed study`: check a study's file, run it, show what came of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.groups import GroupedCommand, NearestGroup, json_option, option, trust_option
from flatfed.cli.options.values import Number, Whole
from flatfed.cli.output.progress import interruptible
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.named_code import NamedBy
    from flatfed.studies.run_study import RunningStudy
    from flatfed.studies.study import Study

FAILED = 1


@click.group(cls=NearestGroup, short_help="Run a grid of methods, settings and seeds from a file.")
def study() -> None:
    """Run a study: variants of methods x settings x seeds, described by a YAML file.

    \b
      flatfed study check study.yaml      every mistake with its line; cells, time, bytes
      flatfed study run study.yaml        what is not finished yet; several at once share the work
      flatfed study show runs/study       the table, also while it runs

    \b
    A short file:
      dataset: digits
      rounds: 100
      clients: 50
      methods:
        fedavg:
        no ADMM: fedgloss(admm=false)
      settings:
        one class: {alpha: 0}
        mild: {alpha: 10}
      seeds: 0, 1, 2
    """


def _file_argument(command: click.decorators.FC) -> click.decorators.FC:
    return click.argument("file", type=click.Path(path_type=Path))(command)


out_option = option("--out", "The study's folder.  [default: runs/ and the file's name]", click.Path(path_type=Path))


def _opened(file: Path, out: Path | None, trust: bool) -> RunningStudy:
    """Return the study of a file in its folder."""
    from flatfed.studies.reading import read_study
    from flatfed.studies.run_study import RunningStudy

    study = read_study(file)
    return RunningStudy(study, out or Path("runs") / file.stem, _named_by(file, trust))


def _named_by(file: Path, trust: bool) -> NamedBy:
    from flatfed.named_code import NamedBy

    return NamedBy(file, trust)


@study.command(cls=GroupedCommand)
@_file_argument
@out_option
@option("--jobs", "Cells at once, for the time.  [default: as many as there are cores]", Whole(1))
@trust_option
@json_option
def check(file: Path, out: Path | None, jobs: int | None, trust: bool, as_json: bool) -> int:
    """Say what FILE would train, and every mistake in it, before anything runs.

    Each setting's data are loaded, each method is tried on them, and a step is timed.
    """
    from flatfed.cli.study.checking import check_study, print_check
    from flatfed.machine import usable_cores

    found = check_study(_opened(file, out, trust), jobs or usable_cores())
    if as_json:
        echo(json.dumps(found.to_dict(), indent=1))
    else:
        print_check(found)
    return 2 if found.mistakes else 0


@study.command(cls=GroupedCommand)
@_file_argument
@out_option
@option("--jobs", "Cells at once; each has one core.  [default: as many as there are cores]", Whole(1))
@option("--retry-failed", "Try cells again that have failed.", is_flag=True)
@option(
    "--lease",
    "Seconds after which a cell is taken over from a process elsewhere that shows no sign of life.",
    Number(),
    60.0,
)
@trust_option
@json_option
def run(
    file: Path, out: Path | None, jobs: int | None, retry_failed: bool, lease: float, trust: bool, as_json: bool
) -> int:
    """Train what is not finished yet of FILE's study, and show the table.

    Any number of these may run at once, on machines that share the folder: each cell is trained by one of them. A cell
    whose process has died is taken over and resumed. Ctrl-C saves; the same command goes on. At the end the table is
    written beside the cells as Markdown, CSV, JSON and LaTeX, with paired statistics over the seeds, a figure, and
    one page for a browser.
    """
    from flatfed.cli.output.results import command_line
    from flatfed.cli.page.pages import study_page
    from flatfed.cli.study.following import StudyProgress
    from flatfed.machine import usable_cores
    from flatfed.studies.reporting import write_study_report

    if not 0 < lease < math.inf:
        raise ConfigError("--lease must be more than 0 seconds")
    running = _opened(file, out, trust)
    for remark in running.enter(command_line()):
        echo(remark, err=True)
    if retry_failed:
        echo(f"{running.retry()} cells that had failed are tried again", err=True)
    with StudyProgress(running) as progress, interruptible(f"interrupted; saved. Go on with: {command_line()}"):
        running.work(progress, jobs or usable_cores(), lease)
    code = _show(running, as_json)
    files = write_study_report(running.table(), running.folder.path) + study_page(running)
    echo(f"written to {running.folder.path}: {', '.join(file.name for file in files)}", err=True)
    return code


@study.command(cls=GroupedCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def show(folder: Path, as_json: bool) -> int:
    """Show the table of a study's FOLDER, also while it runs: done, running (where, round, time left), failed."""
    from flatfed.studies.run_study import RunningStudy

    running = RunningStudy(_recorded(folder), folder)
    return _show(running, as_json)


def _recorded(folder: Path) -> Study:
    from flatfed.studies.entering import recorded_study
    from flatfed.studies.folder import StudyFolder

    return recorded_study(StudyFolder(folder))


def _show(running: RunningStudy, as_json: bool) -> int:
    from flatfed.cli.study.tables import print_standing, print_study

    table = running.table()
    if as_json:
        echo(json.dumps(table.to_dict(), indent=1))
    else:
        print_study(table)
    return FAILED if print_standing(running) else 0
