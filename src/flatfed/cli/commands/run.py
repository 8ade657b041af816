"""`flatfed run`: train one method."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.loading import loading
from flatfed.cli.making.training import free_directory, make_comparison, methods_by_id
from flatfed.cli.options.groups import GroupedCommand, option
from flatfed.cli.options.training import PARAMETERS, common_options
from flatfed.cli.options.values import Whole, dataset_of
from flatfed.cli.output.plans import print_plan
from flatfed.cli.output.progress import Following, follow, waiting
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.comparing.comparison import Comparison
    from flatfed.experiments.planning.plan import Plan
    from flatfed.experiments.running.run import Run

END = f"""
`centralised` (centralised+sam, ...) trains on the examples of all clients in one place. A round is --local-epochs
passes over all of them: as much as N/m rounds of a method that asks m of N clients.

{PARAMETERS}"""


@click.command(cls=GroupedCommand, epilog=END, short_help="Train one method.")
@click.argument("dataset", required=False, metavar="DATASET")
@click.argument("algorithm", required=False, metavar="ALGORITHM")
@option("--seed", "Seed of every draw.", Whole(0), 0)
@common_options
@click.pass_context
def run(ctx: click.Context, /, dataset: str | None, algorithm: str | None, seed: int, **options: Any) -> int:
    """Train ALGORITHM on DATASET and write a run directory.

    DATASET: an id of `flatfed list datasets`, or a function of yours that returns the data, my_module:load.
    ALGORITHM: fedavg, feddyn+sam (client optimiser), fedasam+swa (averaging), with settings feddyn(alpha=0.1)+sam, or a
    class of yours, my_package.my_file:MyMethod.
    Both may stand in the file of --config, as `dataset` and `methods`; a run's own config.json is such a file. Ctrl-C
    stops and saves at any time; `flatfed resume` goes on.
    """
    dataset = dataset_of(ctx, dataset)
    algorithm = _only(methods_by_id(ctx, [] if algorithm is None else [algorithm]))
    if algorithm == "all":
        raise ConfigError("'all' methods are for `flatfed compare`; name one")
    from flatfed.algorithms.spelling import read_spelling
    from flatfed.runs.directory import refuse_taken

    out: Path = options["out"] or free_directory(f"{dataset}-{read_spelling(algorithm).short}")
    refuse_taken(out)  # before the data is read, which may take minutes
    with waiting(f"loading {dataset}"), loading():
        comparison, task = make_comparison(ctx, dataset, [algorithm], [seed])
        plan = comparison.plan_of(comparison.methods[0], task)
        # Checked here: what cannot be played leaves no run directory.
        plan.check()
    if options["dry_run"]:
        return print_plan(comparison, out, options["as_json"])

    def train(following: Following) -> Run:
        from flatfed.experiments.running.play import play

        return play(plan, out, following.round, _about(comparison, plan), following.begin)

    return follow(out, plan.settings.rounds, train, options["as_json"])


def _only(algorithms: list[str]) -> str:
    if len(algorithms) > 1:
        raise ConfigError("the file names several methods, which are for `flatfed compare`; name one")
    return algorithms[0]


def _about(comparison: Comparison, plan: Plan) -> dict[str, str]:
    """Return what is kept with the run for reports."""
    from flatfed.experiments.planning.setting import title_of

    [method] = comparison.methods
    setting = title_of(comparison.recipe, comparison.settings, comparison.sampler, plan.algorithm.pooled)
    return {"title": f"{method.spelling} on {setting}", "command": comparison.command}
