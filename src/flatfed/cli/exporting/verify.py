"""`flatfed verify`: replay a bundled run, and compare bits."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.groups import GroupedCommand, data_dir_option, option, trust_option
from flatfed.cli.options.values import Whole
from flatfed.cli.output.progress import StepProgress
from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.engines.choice import Workers
    from flatfed.experiments.bundling.verify_bundle import Verification

CODES = {"verified": 0, "differs": 1, "versions differ": 2}


@click.command(cls=GroupedCommand, short_help="Replay some rounds of a bundle, and compare bits.")
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@option("--rounds", "Of the first and the random stretch; all replays the whole run.", Whole(1, "all"), 10)
@option("--seed", "Chooses the random stretch.  [default: another each time]", Whole(0))
@option("--workers", "Worker processes; results do not depend on them.", Whole(0, "auto"), "auto", group="engine")
@data_dir_option
@trust_option
@option("--json as_json", "Print as JSON.", is_flag=True, group="output")
def verify(
    path: Path,
    rounds: int | str,
    seed: int | None,
    workers: Workers,
    data_dir: str | None,
    trust: bool,
    as_json: bool,
) -> int:
    """Replay the first, one random and the last stretch of rounds of BUNDLE, and compare them bit by bit.

    Rows of the history are compared column by column, but for times, and states tensor by tensor wherever the bundle
    has a checkpoint. The random stretch begins at a checkpoint that the run kept. Exit codes: 0 verified, 1 some
    round differs, 2 it differs and so do versions or machine (then bits say nothing), or the bundle cannot be replayed.
    """
    from flatfed.experiments.bundling.verify_bundle import verify as replayed

    length = None if rounds == "all" else int(rounds)
    with StepProgress("rounds", at_once=False) as progress:
        result = replayed(
            path,
            rounds=length,
            seed=seed,
            trust=trust,
            data_dir=data_dir,
            workers=workers,
            on_round=partial(progress.show, "rounds"),
        )
    if as_json:
        echo(json.dumps(result.to_dict(), indent=1, allow_nan=False))
    else:
        _print(result)
    return CODES[result.outcome]


def _compared(result: Verification) -> str:
    """Return the rounds after which states were compared."""
    return ", ".join(map(str, sorted(result.compared)))


def _print(result: Verification) -> None:
    lines = {
        "outcome": result.outcome if result.difference is None else f"{result.outcome}: {result.difference}",
        "versions": result.versions or "the same",
        "stretches": "; ".join(f"{one.kind}: {one.words}" for one in result.stretches),
        "same bits": f"rounds {result.verified_rounds}" if result.replayed else "no round",
        "states compared": f"after rounds {_compared(result)}" if result.compared else "none",
        "not replayed": f"rounds {result.other_rounds}" if result.other_rounds else "none",
        "seed": str(result.seed),
    }
    width = max(map(len, lines)) + 2
    for label, text in lines.items():
        echo(f"{label:<{width}}{text}")
    for note in result.notes:
        echo(f"note: {note}", err=True)
