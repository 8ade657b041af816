"""`flatfed study`: check a study's file, run it, show what came of it."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.groups import GroupedCommand, NearestGroup, json_option, option, track_option, trust_option
from flatfed.cli.options.values import Number, Whole
from flatfed.cli.output.progress import interruptible
from flatfed.cli.output.streams import echo
from flatfed.cli.study.drawing import draw, draw_and_tell
from flatfed.cli.study.measure_now import measure, measure_and_show
from flatfed.cli.study.packing import pack, tell_unpacked, unpack
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.studies.run_study import RunningStudy
    from flatfed.studies.study import Study
    from flatfed.tracking.tracker import Tracker

FAILED = 1
SCALES = ("paper", "small", "smoke")


@click.group(cls=NearestGroup, short_help="Run a grid of methods, settings and seeds from a file.")
def study() -> None:
    """Run a study: variants of methods x settings x seeds, described by a YAML file.

    \b
      flatfed study check study.yaml      every mistake with its line; cells, time, bytes
      flatfed study run study.yaml        what is not finished yet; several at once share the work
      flatfed study show runs/study       the table, also while it runs
      flatfed study draw runs/study       its figures, also after they were changed in the file
      flatfed study measure runs/study    the models that are there by now, as the file says; `run` does so at its end
      flatfed study tune study.yaml METHOD --trials 30    the best parameters within ranges
      flatfed study pack runs/study DEST  compact results, to be published; `unpack` makes a folder of them again

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


study.add_command(draw)
study.add_command(measure)
study.add_command(pack)
study.add_command(unpack)


def _file_argument(command: click.decorators.FC) -> click.decorators.FC:
    return click.argument("file", type=click.Path(path_type=Path))(command)


out_option = option("--out", "The study's folder.  [default: runs/ and the file's name]", click.Path(path_type=Path))
lease_option = option(
    "--lease",
    "Seconds after which a cell is taken over from a process elsewhere that shows no sign of life.",
    Number(),
    60.0,
)
scale_option = option(
    "--scale",
    "Of a paper's table or figure: as the paper has it, fit for two cores, or seconds on synthetic data.  "
    "[default: small]",
    click.Choice(SCALES),
)


def _check_lease(seconds: float) -> None:
    if not 0 < seconds < math.inf:
        raise ConfigError("--lease must be more than 0 seconds")


@study.command(cls=GroupedCommand)
@_file_argument
@scale_option
@out_option
@option("--jobs", "Cells at once, for the time.  [default: as many as there are cores]", Whole(1))
@trust_option
@json_option
def check(file: Path, scale: str | None, out: Path | None, jobs: int | None, trust: bool, as_json: bool) -> int:
    """Say what FILE, or a paper's table such as fedgloss/table-3, would train, and every mistake in it.

    Each setting's data are loaded, each method is tried on them, and some rounds or steps are timed.
    """
    from flatfed.cli.study.checking import checked_here, print_check
    from flatfed.cli.study.opening import opened_study
    from flatfed.machine import usable_cores

    opened = opened_study(file, scale, out, trust)
    opened.tell()
    found = checked_here(opened.running, jobs or usable_cores())
    if as_json:
        echo(json.dumps(found.to_dict(), indent=1))
    else:
        print_check(found)
    return 2 if found.mistakes else 0


@study.command(cls=GroupedCommand)
@_file_argument
@scale_option
@out_option
@option(
    "--jobs",
    "Cells at once, each on one core; with slurm, workers.  [default: as many as there are cores; with slurm, "
    "as many as there are cells, at most 10]",
    Whole(1),
)
@option("--launcher", "Where the cells are trained.", click.Choice(["local", "slurm"]), "local")
@option(
    "--slurm",
    "An option of sbatch, such as partition=short or time=2:00:00; may be repeated.",
    metavar="KEY=VALUE",
    multiple=True,
)
@option("--retry-failed", "Try cells again that have failed.", is_flag=True)
@track_option("as before, or as FILE says")
@lease_option
@trust_option
@json_option
def run(
    file: Path,
    scale: str | None,
    out: Path | None,
    jobs: int | None,
    launcher: str,
    slurm: tuple[str, ...],
    retry_failed: bool,
    track: tuple[tuple[Tracker, ...], ...],
    lease: float,
    trust: bool,
    as_json: bool,
) -> int:
    """Train what is not finished yet of FILE's study, or of a paper's table such as fedgloss/table-3.

    Any number of these may run at once, on machines that share the folder: each cell is trained by one of them. A cell
    whose process has died is taken over and resumed. Ctrl-C saves; the same command goes on. At the end, final models
    are measured where FILE says so, and the report is written beside the cells: tables as Markdown, CSV, JSON and
    LaTeX, paired statistics over the seeds, figures, those included that FILE asks for, and one page for a browser.

    With --launcher slurm an array job of workers is submitted that do the same, and the command ends at once.
    """
    from flatfed.cli.output.results import command_line
    from flatfed.cli.study.following import StudyProgress
    from flatfed.cli.study.launching import launch, require_launcher
    from flatfed.cli.study.opening import opened_study
    from flatfed.machine import usable_cores
    from flatfed.studies.finishing import send_study
    from flatfed.studies.reporting import write_study_report
    from flatfed.studies.reporting.study_page import write_study_page

    _check_lease(lease)
    require_launcher(launcher, slurm)
    opened = opened_study(file, scale, out, trust, track or None)
    opened.tell()
    running = opened.running
    for remark in running.enter(command_line(), opened.file):
        echo(remark, err=True)
    opened.record()
    if launcher == "slurm":
        return launch(running, slurm, jobs, lease, retry_failed, as_json)
    if retry_failed:
        echo(f"{running.retry()} cells that had failed are tried again", err=True)
    with StudyProgress(running) as progress, interruptible(f"interrupted; saved. Go on with: {command_line()}"):
        running.work(progress, jobs or usable_cores(), lease)
    measure_and_show(running, jobs or usable_cores(), lease)
    code = _show(running, as_json)
    folder = running.folder.path
    files = write_study_report(running.table(), folder, lambda text: echo(text, err=True))
    echo(f"written to {folder}: {_listed(folder, files)}", err=True)
    drawn = draw_and_tell(running, jobs)
    # Last, as the page shows what was measured and drawn.
    for page in write_study_page(running):
        echo(f"report: {page}", err=True)
    with interruptible(f"interrupted while sending; go on with: {command_line()}"):
        send_study(running, lambda text: echo(text, err=True))
    return drawn or code


def _listed(folder: Path, files: Sequence[Path]) -> str:
    """Return the names of files; those in a folder are counted."""
    names = [file.relative_to(folder).parts for file in files]
    counts = Counter(parts[0] for parts in names)
    below = {parts[0] for parts in names if len(parts) > 1}
    return ", ".join(f"{name}/ ({count} files)" if name in below else name for name, count in counts.items())


@study.command(cls=GroupedCommand)
@_file_argument
@click.argument("method")
@option("--setting", "The setting in which to tune; needed where there are several.", metavar="NAME")
@option("--trials", "Trials in all, those of before included.", Whole(1), required=True)
@out_option
@option("--jobs", "Runs at once; each has one core.  [default: as many as there are cores]", Whole(1))
@option("--seed", "The seed of the search.", Whole(0), 0)
@lease_option
@trust_option
@json_option
def tune(
    file: Path,
    method: str,
    setting: str | None,
    trials: int,
    out: Path | None,
    jobs: int | None,
    seed: int,
    lease: float,
    trust: bool,
    as_json: bool,
) -> int:
    """Search the ranges that FILE gives under `tune` for METHOD's parameters, and print the best.

    Trials are proposed by Optuna and run with the seeds, or on the held-out examples, of `select`. One that promises
    less than half of the others is ended early. Any number of these may run at once; Ctrl-C saves, and the same
    command goes on. With --jobs 1 and nobody else at work, the same seed makes the same trials.
    """
    from flatfed.cli.output.results import command_line
    from flatfed.cli.study.following import StudyProgress
    from flatfed.cli.study.opening import opened_study
    from flatfed.cli.study.tuning import print_tuned
    from flatfed.machine import usable_cores
    from flatfed.studies.tuning.outcome import outcome_of, write_trials
    from flatfed.studies.tuning.tuner import Tuner

    _check_lease(lease)
    opened = opened_study(file, None, out, trust)
    running = opened.running
    tuner = Tuner(running, method, setting, trials, seed)
    for remark in running.enter(command_line(), opened.file):
        echo(remark, err=True)
    tuner.check()
    with StudyProgress(tuner) as progress, interruptible(f"interrupted; saved. Go on with: {command_line()}"):
        tuner.work(progress, jobs or usable_cores(), lease)
    tuned = outcome_of(tuner)
    if as_json:
        echo(json.dumps(tuned.to_dict(), indent=1))
    else:
        print_tuned(tuned)
    echo(f"all trials are in {write_trials(tuned, tuner.path)}", err=True)
    return 0 if tuned.best else FAILED


@study.command(cls=GroupedCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
def show(folder: Path, as_json: bool) -> int:
    """Show the table of a study's FOLDER, also while it runs: done, running (where, round, time left), failed."""
    from flatfed.studies.run_study import RunningStudy

    running = RunningStudy(_recorded(folder), folder)
    tell_unpacked(folder)
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
