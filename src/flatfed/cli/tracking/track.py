"""`flatfed track`: send runs to a tracker that were not sent while they trained, or not wholly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.groups import GroupedCommand, accept_data_option, data_dir_option, option, trust_option
from flatfed.cli.options.values import OfKind
from flatfed.cli.output.progress import interruptible
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError, FlatfedError
from flatfed.experiments.spelling.kinds import TrackKind

if TYPE_CHECKING:
    from flatfed.tracking.tracker import Tracker

FAILED = 1


@click.command(cls=GroupedCommand, short_help="Send runs to TensorBoard, MLflow or Weights & Biases.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@option(
    "--to",
    "The tracker: tensorboard, mlflow or wandb, with parameters such as mlflow(experiment=flat); may be repeated.  "
    "[default: those of before]",
    OfKind(TrackKind(), "NAME"),
    multiple=True,
)
@option("--no-model", "Leave the final models out; then no data are needed.", is_flag=True)
@data_dir_option
@accept_data_option
@trust_option
def track(
    paths: tuple[Path, ...],
    to: tuple[tuple[Tracker, ...], ...],
    no_model: bool,
    data_dir: str | None,
    accept_changed_data: bool,
    trust: bool,
) -> int:
    """Send each PATH, a run, a comparison, a study or a folder of runs, to trackers; nothing is sent twice.

    What was sent before, while it trained or by this command, is noted beside each run.
    """
    from flatfed.tracking.tracker import check_trackers, chosen

    check_trackers(chosen(to), has_directory=True)
    complete = True
    with interruptible("interrupted; the same command again goes on"):
        for path in paths:
            runs = _good_runs(path)
            if not no_model:
                for run in runs:
                    _have_model(run, data_dir, trust, accept_changed_data)
            complete &= _send(path, runs, chosen(to) or _of_before(path, runs))
    return 0 if complete else FAILED


def _good_runs(path: Path) -> list[Path]:
    """Return the runs that a path stands for; one whose history was changed is an error."""
    from flatfed.experiments.comparing.comparison import runs_in
    from flatfed.experiments.running.run import open_run

    runs = runs_in(path)
    for run in runs:
        _ = open_run(run).rows
    return runs


def _of_before(path: Path, runs: list[Path]) -> tuple[Tracker, ...]:
    from flatfed.tracking.record import recorded_trackers

    trackers = {tracker.id: tracker for place in (path, *runs) for tracker in recorded_trackers(place)}
    if not trackers:
        raise ConfigError(f"{path} was not sent anywhere by you; name a tracker with --to")
    return tuple(trackers.values())


def _have_model(run: Path, data_dir: str | None, trust: bool, accept_changed_data: bool) -> None:
    """Write the final model of a finished run, where it is not there; a run is sent also without it."""
    from flatfed.experiments.running.final_model import write_model
    from flatfed.experiments.running.run import load_run
    from flatfed.runs.directory import RunDirectory
    from flatfed.tracking.feed import MODEL

    if (run / MODEL).exists() or RunDirectory.open(run).status()["status"] != "finished":
        return
    try:
        write_model(load_run(run, trust=trust, data_dir=data_dir, accept_changed_data=accept_changed_data))
    except FlatfedError as error:
        echo(f"{run}: sent without its final model: {error}", err=True)


def _send(path: Path, runs: list[Path], trackers: tuple[Tracker, ...]) -> bool:
    from flatfed.tracking.run_tracking import send
    from flatfed.tracking.subject import is_whole

    places = [*runs, path] if is_whole(path) else runs
    complete = True
    for tracker in trackers:
        sent = send(tracker, places, lambda text: echo(text, err=True))
        echo(f"{tracker.id}: {'all' if sent else 'not all'} of {path} is there", err=True)
        complete &= sent
    return complete
