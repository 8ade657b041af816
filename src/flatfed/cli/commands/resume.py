"""`flatfed resume`: go on with a run or a comparison."""

from __future__ import annotations

from pathlib import Path

import click

from flatfed.cli.options.values import Whole
from flatfed.core.errors import ConfigError


@click.command(short_help="Continue a run or a comparison.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--rounds", type=Whole(1), default=None, help="New total of rounds.  [default: the run's]")
@click.option(
    "--data-dir", default=None, help="Where the data sets lie, if no longer where they were; the run takes note of it."
)
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as before]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
def resume(path: Path, rounds: int | None, data_dir: str | None, workers: int | str | None, as_json: bool) -> int:
    """Continue RUN, a run directory or a comparison's, to the same bits as if it had never stopped."""
    from flatfed.experiments.comparing.compare import is_comparison, load_comparison

    if not is_comparison(path):
        return _run(path, rounds, data_dir, workers, as_json)
    if rounds is not None:
        raise ConfigError("--rounds extends a single run; this is a comparison")
    from flatfed.cli.commands.compare import run_and_report

    return run_and_report(load_comparison(path, workers, data_dir), path, as_json)


def _run(path: Path, rounds: int | None, data_dir: str | None, workers: int | str | None, as_json: bool) -> int:
    from flatfed.cli.output.progress import Progress
    from flatfed.cli.output.results import finish_run
    from flatfed.cli.output.summary import resumed_config, run_text
    from flatfed.experiments.running.play import continue_play
    from flatfed.experiments.running.resume import prepare

    plan, directory = prepare(path, rounds, data_dir=data_dir, workers=workers)
    click.echo(run_text(resumed_config(plan, directory.config), path), err=True)
    with Progress(plan.settings.rounds) as progress:
        progress.name = path.name
        result = continue_play(plan, directory, progress.round, progress.say)
    return finish_run(result, path, as_json)
