"""`flatfed study`: check a study's file, run it, show what came of it."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.groups import GroupedCommand, NearestGroup, json_option, option, trust_option
from flatfed.cli.options.values import Number, Whole
from flatfed.cli.output.progress import interruptible
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.studies.run_study import RunningStudy
    from flatfed.studies.study import Study

FAILED = 1
SCALES = ("paper", "small", "smoke")


@click.group(cls=NearestGroup, short_help="Run a grid of methods, settings and seeds from a file.")
def study() -> None:
    """Run a study: variants of methods x settings x seeds, described by a YAML file.

    \b
      flatfed study check study.yaml      every mistake with its line; cells, time, bytes
      flatfed study run study.yaml        what is not finished yet; several at once share the work
      flatfed study show runs/study       the table, also while it runs

    \b
    The tables and figures of five papers are there to be run, by name in the place of a file:
      flatfed study list fedgloss                      what there is
      flatfed study run fedgloss/table-3               small: in hours on two cores; see --scale
      flatfed study write fedgloss/table-3 mine.yaml   the file, to be edited

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
scale_option = option(
    "--scale",
    "Of a paper's table or figure: as the paper has it, fit for two cores, or seconds on synthetic data.  "
    "[default: small]",
    click.Choice(SCALES),
)


@study.command(cls=GroupedCommand)
@_file_argument
@scale_option
@out_option
@option("--jobs", "Cells at once, for the time.  [default: as many as there are cores]", Whole(1))
@trust_option
@json_option
def check(file: Path, scale: str | None, out: Path | None, jobs: int | None, trust: bool, as_json: bool) -> int:
    """Say what FILE, or a paper's table such as fedgloss/table-3, would train, and every mistake in it.

    Each setting's data are loaded, each method is tried on them, and a step is timed.
    """
    from flatfed.cli.study.checking import check_study, print_check
    from flatfed.cli.study.opening import opened_study
    from flatfed.machine import usable_cores

    opened = opened_study(file, scale, out, trust)
    opened.tell()
    found = check_study(opened.running, jobs or usable_cores())
    if as_json:
        echo(json.dumps(found.to_dict(), indent=1))
    else:
        print_check(found)
    return 2 if found.mistakes else 0


@study.command(cls=GroupedCommand)
@_file_argument
@scale_option
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
    file: Path,
    scale: str | None,
    out: Path | None,
    jobs: int | None,
    retry_failed: bool,
    lease: float,
    trust: bool,
    as_json: bool,
) -> int:
    """Train what is not finished yet of FILE's study, or of a paper's table such as fedgloss/table-3.

    Any number of these may run at once, on machines that share the folder: each cell is trained by one of them. A cell
    whose process has died is taken over and resumed. Ctrl-C saves; the same command goes on. At the end the table is
    written beside the cells as Markdown, CSV, JSON and LaTeX, with paired statistics over the seeds and a figure.
    """
    from flatfed.cli.output.results import command_line
    from flatfed.cli.study.following import StudyProgress
    from flatfed.cli.study.opening import opened_study
    from flatfed.machine import usable_cores
    from flatfed.studies.reporting import write_study_report

    if not 0 < lease < math.inf:
        raise ConfigError("--lease must be more than 0 seconds")
    opened = opened_study(file, scale, out, trust)
    opened.tell()
    running = opened.running
    for remark in running.enter(command_line()):
        echo(remark, err=True)
    opened.record()
    if retry_failed:
        echo(f"{running.retry()} cells that had failed are tried again", err=True)
    with StudyProgress(running) as progress, interruptible(f"interrupted; saved. Go on with: {command_line()}"):
        running.work(progress, jobs or usable_cores(), lease)
    code = _show(running, as_json)
    files = write_study_report(running.table(), running.folder.path)
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


@study.command("list", cls=GroupedCommand)
@click.argument("paper", required=False)
@json_option
def list_presets(paper: str | None, as_json: bool) -> int:
    """List the tables and figures of five papers, or of one PAPER: what each shows, and whether it can be run."""
    from flatfed.cli.study.preset_tables import listed, print_presets
    from flatfed.studies.presets import paper_names, presets_of

    papers = [paper] if paper else paper_names()
    presets = [preset for name in papers for preset in presets_of(name).values()]
    if as_json:
        echo(json.dumps([listed(preset) for preset in presets], indent=1))
    else:
        print_presets(presets)
    return 0


@study.command(cls=GroupedCommand)
@click.argument("preset")
@click.argument("file", type=click.Path(path_type=Path))
@scale_option
def write(preset: str, file: Path, scale: str | None) -> int:
    """Write the study of a paper's table or figure, PRESET such as fedgloss/table-3, into a new FILE to be edited."""
    from flatfed.cli.study.preset_tables import preset_text
    from flatfed.studies.presets import find_preset, scale_named

    text = preset_text(find_preset(preset), scale_named(scale))
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise ConfigError(f"{file} exists; name a new file") from None
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    echo(f"written to {file}; run it with: flatfed study run {shlex.quote(str(file))}", err=True)
    return 0


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
