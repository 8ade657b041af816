"""`flatfed branch`: a finished run once more with an average, without training its beginning again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.making.training import free_directory, typed_once
from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_code_option,
    accept_data_option,
    data_dir_option,
    engine_options,
    json_option,
    option,
    trust_option,
)
from flatfed.cli.options.values import Whole
from flatfed.cli.output.progress import Following, follow
from flatfed.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from flatfed.core.method.algorithm import Average
    from flatfed.engines.choice import Workers
    from flatfed.experiments.planning.plan import Plan
    from flatfed.experiments.running.run import Run

OWNER = "average."


@click.command(cls=GroupedCommand, short_help="Go on from a run's checkpoint with an average (SWA).")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@option("--average", "Average of global models: flatfed list algorithms.", str, "swa")
@option(
    "--set settings",
    "A parameter of the average: average.cycle=20, average.start=0.5.",
    multiple=True,
    metavar="NAME=VALUE",
)
@option("--from round", "Branch after N rounds.  [default: the newest checkpoint before the average begins]", Whole(0))
@option("--rounds", "Total of rounds of the new run.  [default: RUN's]", Whole(1))
@option("--out", "Directory to write.  [default: a new one in runs/]", click.Path(path_type=Path))
@data_dir_option
@engine_options("Worker processes.  [default: as RUN]")
@trust_option
@accept_data_option
@accept_code_option
@json_option
def branch(
    path: Path,
    average: str,
    settings: tuple[str, ...],
    round: int | None,
    rounds: int | None,
    out: Path | None,
    data_dir: str | None,
    workers: Workers | None,
    trust: bool,
    accept_changed_data: bool,
    accept_changed_code: bool,
    as_json: bool,
) -> int:
    """Train on from a checkpoint of RUN with an average, in a new run directory.

    The result is that of the whole run with the average, to the bit (fedavg becomes fedavg+swa), without training its
    beginning again. The checkpoint must be of a round before the average begins: train RUN with --keep-checkpoints. RUN
    is only read. With --rounds the new run may be longer: SWA over 100 more rounds of a run of 1,000 is
    --rounds 1100 --set average.start=0.9091 (a share of the rounds). `flatfed resume` goes on with the new run.
    """
    # Imported here, as in every command: torch takes seconds, and help does without it.
    from flatfed.experiments.running.branch import branch as go_on
    from flatfed.experiments.running.branch import branched_plan
    from flatfed.experiments.running.run import open_run, with_data

    made = _average(average, settings)
    plan = branched_plan(
        with_data(open_run(path, trust, accept_changed_data), data_dir), made, rounds, remembered=False
    )
    place = out or free_directory(f"{path.resolve().name}-{average}")

    def train(following: Following) -> Run:
        return go_on(
            path,
            made,
            place,
            round=round,
            rounds=rounds,
            task=plan.task,
            trust=trust,
            accept_changed_data=accept_changed_data,
            accept_changed_code=accept_changed_code,
            data_dir=data_dir,
            workers=workers,
            on_round=following.round,
            say=following.say,
            about=_about(plan),
            on_begin=following.begin,
        )

    return follow(place, plan.settings.rounds, train, as_json)


def _average(id: str, settings: tuple[str, ...]) -> Average:
    """Return the average with its parameters."""
    from flatfed.algorithms import Average
    from flatfed.named_code import USER
    from flatfed.outside.named_parts import with_ids

    cls = Average.registry.find(with_ids(id, [Average.registry], USER))
    values: dict[str, Any] = {}
    for name, value in typed_once(settings).items():
        if not name.startswith(OWNER):
            raise ConfigError(f"--set {name}: only the average can be set here; {_nearest_parameter(name, cls)}")
        values[name.removeprefix(OWNER)] = value
    return cls.registry.make(cls.id, **values)


def _nearest_parameter(name: str, average: type[Average]) -> str:
    from flatfed.core.configuration.config import parameters

    return nearest(name, [f"{OWNER}{parameter}" for parameter in parameters(average)], "parameter")


def _about(plan: Plan) -> dict[str, str]:
    """Return what is kept with the run for reports."""
    from flatfed.cli.output.results import command_line

    return {"title": _title(plan), "command": command_line()}


def _title(plan: Plan) -> str:
    from flatfed.algorithms.spelling import spelling_of
    from flatfed.experiments.planning.setting import recipe_of, title_of

    method, recipe = spelling_of(plan.algorithm, plan.average), recipe_of(plan)
    if recipe is None:
        return method
    return f"{method} on {title_of(recipe, plan.settings, plan.sampler, plan.algorithm.pooled)}"
