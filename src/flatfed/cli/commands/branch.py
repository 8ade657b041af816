"""`flatfed branch`: a finished run once more with an average, without training its beginning again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.given import free_directory, typed_once
from flatfed.cli.options.values import Whole
from flatfed.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from flatfed.core.method.algorithm import Average
    from flatfed.experiments.running.plan import Plan

OWNER = "average."


@click.command(short_help="Go on from a run's checkpoint with an average (SWA).")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--average", default="swa", show_default=True, help="Average of global models: flatfed list algorithms.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the average: average.cycle=20, average.start=0.5.",
)
@click.option(
    "--from",
    "round",
    type=Whole(0),
    default=None,
    help="Branch after N rounds.  [default: the newest checkpoint before the average begins]",
)
@click.option("--rounds", type=Whole(1), default=None, help="Total of rounds of the new run.  [default: RUN's]")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Directory to write.  [default: in runs/]")
@click.option("--data-dir", default=None, help="Where the data sets lie, if no longer where they were.")
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as RUN]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
def branch(
    path: Path,
    average: str,
    settings: tuple[str, ...],
    round: int | None,
    rounds: int | None,
    out: Path | None,
    data_dir: str | None,
    workers: int | str | None,
    as_json: bool,
) -> int:
    """Train on from a checkpoint of RUN with an average, in a new run directory.

    The result is that of the whole run with the average, to the bit (fedavg becomes fedavg+swa), without training its
    beginning again. The checkpoint must be of a round before the average begins: train RUN with --keep-checkpoints. RUN
    is only read. With --rounds the new run may be longer: SWA over 100 more rounds of a run of 1,000 is
    --rounds 1100 --set average.start=0.9091 (a share of the rounds). `flatfed resume` goes on with the new run.
    """
    from flatfed.cli.output.progress import Progress
    from flatfed.cli.output.results import command_line, finish_run
    from flatfed.experiments.running.branch import branch as go_on
    from flatfed.experiments.running.branch import branched_plan
    from flatfed.experiments.running.loading import open_run, with_data

    made, source = _average(average, settings), with_data(open_run(path), data_dir)
    plan = branched_plan(source, made, rounds, remembered=False)
    place = out or free_directory(f"{path.resolve().name}-{average}")
    about = {"title": _title(plan), "command": command_line()}
    with Progress(plan.settings.rounds) as progress:
        progress.name = place.name
        result = go_on(
            path,
            made,
            place,
            round=round,
            rounds=rounds,
            task=plan.task,
            data_dir=data_dir,
            workers=workers,
            on_round=progress.round,
            say=progress.say,
            about=about,
        )
    return finish_run(result, place, as_json)


def _average(id: str, settings: tuple[str, ...]) -> Average:
    """Return the average with its parameters."""
    from flatfed.algorithms import Average
    from flatfed.core.configuration.config import parameters

    cls, values = Average.registry.find(id), dict[str, Any]()
    for name, value in typed_once(settings).items():
        if not name.startswith(OWNER):
            known = [f"{OWNER}{parameter}" for parameter in parameters(cls)]
            raise ConfigError(f"--set {name}: only the average can be set here; {nearest(name, known, 'parameter')}")
        values[name.removeprefix(OWNER)] = value
    return cls.registry.make(id, **values)


def _title(plan: Plan) -> str:
    from flatfed.algorithms.spelling import spelling_of
    from flatfed.experiments.comparing.compare import describe_setting
    from flatfed.experiments.tasks.recipe import TaskRecipe

    method, recipe = spelling_of(plan.algorithm, plan.average), plan.task_recipe or {}
    if recipe.get("kind") != "catalogue":
        return method
    pooled = plan.algorithm.pooled
    return f"{method} on {describe_setting(TaskRecipe.from_dict(recipe), plan.settings, plan.sampler, pooled)}"
