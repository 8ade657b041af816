"""`flatfed compare`: several methods and seeds, one table."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.making.training import free_directory, make_comparison, methods_by_id
from flatfed.cli.options.groups import GroupedCommand, jobs_option, option, refuse_unevaluated, report_options
from flatfed.cli.options.training import PARAMETERS, common_options
from flatfed.cli.options.values import WholeNumbers, dataset_of
from flatfed.cli.output.comparison_progress import ComparisonProgress
from flatfed.cli.output.files import tell_report
from flatfed.cli.output.plans import print_plan
from flatfed.cli.output.progress import StepProgress, interruptible, waiting
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.comparing.compare import ComparisonOutcome
    from flatfed.experiments.comparing.comparison import Comparison, Flatness
    from flatfed.experiments.comparing.opened import OpenedRuns
    from flatfed.runs.directory import RunDirectory

END = f"""
Writes results.csv, results.json, report.md, the curves and report.html beside the runs. A method that diverges is a row
of the table. The baseline `centralised` (centralised+sam, ...) passes over all examples in each of its rounds, whatever
--per-round says.

{PARAMETERS}"""


@click.command(cls=GroupedCommand, epilog=END, short_help="Train several methods and seeds, print one table.")
@click.argument("dataset", required=False, metavar="DATASET")
@click.argument("algorithms", nargs=-1, metavar="ALGORITHM...")
@option("--seeds", "Seeds: each method is trained once with each.", WholeNumbers(), "0")
@jobs_option
@option(
    "--flatness",
    "Measure the flatness of every finished run (λmax, λmax/λ5, LPF) over --watch-samples training examples and show "
    "it in the table.",
    is_flag=True,
    group="evaluation",
)
@report_options
@common_options
@click.pass_context
def compare(
    ctx: click.Context, /, dataset: str | None, algorithms: tuple[str, ...], seeds: list[int], **options: Any
) -> int:
    """Train each ALGORITHM on DATASET with each seed and print one table.

    ALGORITHM: fedavg, feddyn+sam, fedasam+swa, with settings feddyn(alpha=0.1)+sam, or `all`. The same command again
    goes on with a comparison that was interrupted, and with more seeds, methods or rounds trains what is new. Data set
    and methods may stand in the file of --config, as `dataset` and `methods`.
    """
    dataset = dataset_of(ctx, dataset)
    with waiting(f"loading {dataset}"):
        comparison, _ = make_comparison(ctx, dataset, expand(methods_by_id(ctx, algorithms)), seeds)
    # Now, because the table is made only when all runs have ended.
    refuse_unevaluated(comparison.extras.at, comparison.settings)
    comparison.check_extras()
    out: Path = options["out"] or free_directory(f"{dataset}-comparison")
    if options["dry_run"]:
        return print_plan(comparison, out, options["as_json"])
    return run_and_report(comparison, out, options["as_json"], options["jobs"])


def run_and_report(comparison: Comparison, out: Path, as_json: bool, jobs: int | None = None) -> int:
    """Run what is left of a comparison, `jobs` runs at a time, write its report and print its table."""
    from flatfed.cli.output.results import print_results, read_results
    from flatfed.cli.page.pages import comparison_page
    from flatfed.reports.write import write_report

    outcome = _train(comparison, out, jobs)
    if comparison.flatness is not None:
        _measure(comparison.flatness, outcome.directories, comparison)
    results = read_results(outcome.runs)
    files = write_report(results, out, comparison.title, comparison.command, comparison.extras)
    print_results(results, as_json, comparison.extras)
    files += comparison_page(results, comparison, out)
    # Standard output holds the table alone, for pipes.
    echo(f"written to {out}: {', '.join(map(attrgetter('name'), files))}", err=True)
    tell_report(files)
    _send(comparison, out)
    return 1 if outcome.failed else 0


def _train(comparison: Comparison, out: Path, jobs: int | None) -> ComparisonOutcome:
    from flatfed.cli.output.results import comparison_text
    from flatfed.experiments.comparing.compare import compare as run_comparison

    runs = len(comparison.methods) * len(comparison.seeds)
    with (
        ComparisonProgress(comparison.settings.rounds, runs) as progress,
        interruptible(f"interrupted; saved. Continue the comparison with: flatfed resume {shlex.quote(str(out))}"),
    ):

        def begin(opened: OpenedRuns) -> None:
            progress.say(comparison_text(comparison, out, opened))

        return run_comparison(comparison, out, progress, begin, jobs)


def _send(comparison: Comparison, out: Path) -> None:
    """Send to trackers what is known only now: measurements, the report and the figures."""
    from flatfed.experiments.comparing.send_whole import send_whole, tracked

    trackers = tracked(comparison, out).track or ()
    runs = [path for path, _ in comparison.runs(out)]
    with interruptible(f"interrupted while sending; go on with: flatfed track {shlex.quote(str(out))}"):
        send_whole(trackers, runs, out, lambda text: echo(text, err=True))


def _measure(flatness: Flatness, runs: list[RunDirectory], comparison: Comparison) -> None:
    """Measure the runs that came to their end; what was measured before is not measured again."""
    from flatfed.experiments.measuring.flatness import measure_flatness

    with (
        # Not at once: what was measured before takes no time.
        StepProgress("runs", at_once=False) as progress,
        interruptible("interrupted while measuring; the same command again goes on"),
    ):
        measure_flatness(flatness, runs, comparison.workers, progress.show, progress.say)


def expand(algorithms: Sequence[str]) -> list[str]:
    """Return the methods named; `all` stands for every algorithm."""
    from flatfed.algorithms import Algorithm

    spellings: list[str] = []
    for name in algorithms:
        if name.isdigit():
            raise ConfigError(f"{name} is not an algorithm; seeds have commas between them: --seeds 0,1,2")
        if name == "all":
            spellings.extend(sorted(Algorithm.registry))
        else:
            spellings.append(name)
    return spellings
