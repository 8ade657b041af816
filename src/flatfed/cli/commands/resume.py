"""`flatfed resume`: go on with a run or a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

import click

from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_code_option,
    accept_data_option,
    engine_options,
    jobs_option,
    json_option,
    option,
    track_option,
    trust_option,
)
from flatfed.cli.options.values import Whole, click_type
from flatfed.cli.output.progress import Following, follow, waiting
from flatfed.core.configuration.settings import about_settings
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.declared import OPTIONS

if TYPE_CHECKING:
    from flatfed.engines.choice import Workers
    from flatfed.tracking.tracker import Track, Tracker


@click.command(cls=GroupedCommand, short_help="Continue a run or a comparison.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@option("--rounds", "New total of rounds, of a comparison for all its runs.  [default: as before]", Whole(1))
@option("--data-dir", "Where the data sets lie, if no longer where they were; the run takes note of it.")
@engine_options("Worker processes.  [default: as before]")
@option(
    "--cohort-memory",
    f"{about_settings()['cohort_memory'].text}  [default: as before]",
    click_type(OPTIONS["cohort_memory"].kind),
    group="engine",
)
@jobs_option
@trust_option
@accept_data_option
@accept_code_option
@option(
    "--accept-changed-history",
    "Go on although rows of the history were changed or lost, with those that can be read.",
    is_flag=True,
    group="output",
)
@track_option("as before")
@json_option
def resume(
    path: Path,
    rounds: int | None,
    data_dir: str | None,
    workers: Workers | None,
    cohort_memory: str | None,
    jobs: int | None,
    trust: bool,
    accept_changed_data: bool,
    accept_changed_code: bool,
    accept_changed_history: bool,
    track: tuple[tuple[Tracker, ...], ...],
    as_json: bool,
) -> int:
    """Continue RUN, a run directory or a comparison's, to the same bits as if it had never stopped."""
    from flatfed.runs.directory import is_comparison

    opening: Opening = {
        "data_dir": data_dir,
        "workers": workers,
        "cohort_memory": cohort_memory,
        "trust": trust,
        "track": track or None,
    }
    if not is_comparison(path):
        if jobs is not None:
            raise ConfigError(f"--jobs is for the runs of a comparison, and {path} is a single run; leave it out")
        opening["accept_changed_data"] = accept_changed_data
        opening["accept_changed_code"] = accept_changed_code
        return _resume_run(path, rounds, opening, accept_changed_history, as_json)
    if accept_changed_data or accept_changed_code or accept_changed_history:
        raise ConfigError("what was changed is accepted run by run; resume the run itself")
    return _resume_comparison(path, rounds, opening, jobs, as_json)


class Opening(TypedDict):
    """How runs are opened."""

    data_dir: str | None
    workers: Workers | None
    cohort_memory: str | None
    trust: bool
    track: Track
    accept_changed_data: NotRequired[bool]
    accept_changed_code: NotRequired[bool]


def _resume_comparison(path: Path, rounds: int | None, opening: Opening, jobs: int | None, as_json: bool) -> int:
    from flatfed.cli.commands.compare import run_and_report
    from flatfed.experiments.comparing.comparison import load_comparison

    comparison = load_comparison(path, opening["workers"], opening["data_dir"], opening["trust"])
    comparison = replace(comparison, track=_asked(opening["track"]))
    asked = {"rounds": rounds, "cohort_memory": opening["cohort_memory"]}
    given = {name: value for name, value in asked.items() if value is not None}
    comparison = replace(comparison, settings=comparison.settings.replace(**given))
    return run_and_report(comparison, path, as_json, jobs)


def _asked(track: Track) -> tuple[Tracker, ...] | None:
    """Return the trackers that are asked for; None where nothing is said."""
    from flatfed.tracking.tracker import check_trackers, chosen

    if track is None:
        return None
    trackers = chosen(track)
    check_trackers(trackers, has_directory=True)
    return trackers


def _resume_run(path: Path, rounds: int | None, opening: Opening, accept_changed_history: bool, as_json: bool) -> int:
    from flatfed.cli.output.results import resumed_config
    from flatfed.experiments.running.play import continue_play
    from flatfed.experiments.running.resume import prepare
    from flatfed.experiments.running.run import Run
    from flatfed.runs.results import check_results

    with waiting(f"opening {path} and loading its data"):
        plan, directory = prepare(path, rounds, **opening)
        check_results(path)

    def train(following: Following) -> Run:
        following.begin(resumed_config(plan, directory.config), len(directory.recorded.rows))
        return continue_play(plan, directory, following.round, following.say, accept_changed_history)

    return follow(path, plan.settings.rounds, train, as_json)
