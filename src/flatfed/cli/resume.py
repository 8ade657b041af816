"""`flatfed resume`: go on with a run or a comparison."""

from __future__ import annotations

from pathlib import Path

import click

from flatfed.cli.options import WholeOr
from flatfed.core.errors import ConfigError


@click.command()
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--rounds", type=click.IntRange(1), default=None, help="New total of rounds.  [default: the run's]")
@click.option("--workers", type=WholeOr("auto", 0), default=None, help="Worker processes.  [default: the run's]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
def resume(path: Path, rounds: int | None, workers: int | str | None, as_json: bool) -> int:
    """Continue RUN, a run directory or a comparison's, to the same bits as if it had never stopped."""
    from flatfed.experiments.compare import is_comparison

    if is_comparison(path):
        if rounds is not None:
            raise ConfigError("--rounds extends a single run; this is a comparison")
        return _comparison(path, workers, as_json)
    return _run(path, rounds, workers, as_json)


def _run(path: Path, rounds: int | None, workers: int | str | None, as_json: bool) -> int:
    from flatfed.cli.output import command_line, print_results
    from flatfed.cli.progress import Progress
    from flatfed.experiments.resume import resume as go_on
    from flatfed.reports.results import collect
    from flatfed.reports.write import write_report
    from flatfed.runs.directory import RunDirectory

    directory = RunDirectory.open(path)
    with Progress(rounds or directory.config["settings"]["rounds"]) as progress:
        progress.start(path, len(directory.history().rows))
        result = go_on(path, rounds, workers=workers, on_round=progress.round, say=progress.say)  # type: ignore[arg-type]
    write_report(collect([path]), path, f"{directory.config['method']}", command_line())
    print_results([path], as_json)
    if result.reason:
        click.echo(f"{result.status}: {result.reason}", err=True)
    return 0 if result.status == "finished" else 1


def _comparison(path: Path, workers: int | str | None, as_json: bool) -> int:
    from flatfed.cli.compare import finish
    from flatfed.cli.progress import Progress
    from flatfed.experiments.compare import compare, load_comparison

    comparison = load_comparison(path, "auto" if workers is None else workers)
    runs = len(comparison.methods) * len(comparison.seeds)
    with Progress(comparison.settings.rounds, runs) as progress:
        paths = compare(comparison, path, progress.start, progress.round, progress.say)
    return finish(paths, path, comparison.title, as_json)
