"""`flatfed flatness`: measure how flat the minima of runs are."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options import Whole, weights_option
from flatfed.cli.progress import Steps
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.laboratory import Weights
    from flatfed.reports.flatness import Measured

DEFAULT = "loss,lambda_ratio,trace,lpf,sharpness,adaptive_sharpness,parameter_norm"
WIDE, UNBOUNDED = 160, 10_000


@click.command(short_help="Measure how flat the minima of runs are.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--measure",
    default=DEFAULT,
    show_default=True,
    metavar="NAME,...",
    help="What to measure; parameters in brackets: lpf(samples=20). See flatfed list measurements.",
)
@click.option(
    "--data",
    default="train",
    show_default=True,
    help="Examples: `train` (all clients), a test set, `client N`.",
)
@click.option("--samples", type=Whole(1, "all"), default="all", show_default=True, help="Of so many of those examples.")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Key of that draw.")
@weights_option
@click.option(
    "--figures", type=click.Path(path_type=Path), default=None, help="Draw what was measured into this folder."
)
@click.option("--tsne", is_flag=True, help="With --figures: also map the penultimate features of 3,000 test examples.")
@click.option("--data-dir", default=None, help="Where the data sets lie, if no longer where they were.")
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as the run]")
@click.option("--json", "as_json", is_flag=True, help="Print the readings as JSON, every client included.")
def flatness(
    paths: tuple[Path, ...],
    measure: str,
    data: str,
    samples: int | str,
    seed: int,
    weights: Weights,
    figures: Path | None,
    tsne: bool,
    data_dir: str | None,
    workers: int | str | None,
    as_json: bool,
) -> int:
    """Measure the model of each RUN: a run directory, a comparison, or one checkpoint (RUN/checkpoints/round-...).

    Readings are kept in RUN/flatness/readings.json; what was measured in the same way is not measured again. An
    eigenvalue comes with its residual (a true one is at most so far away) and a verdict; estimates with their standard
    error.
    """
    from flatfed.experiments.flatness import measure_runs, runs_named
    from flatfed.experiments.measures import parse_measurements

    if tsne and figures is None:
        raise ConfigError("--tsne says what --figures DIR draws; give that too")
    try:
        measurements = parse_measurements(measure)
    except ConfigError as error:
        raise ConfigError(f"--measure: {error}") from None
    runs = runs_named(paths)
    with Steps("measurements", at_once=False) as progress:
        try:
            found = measure_runs(
                runs,
                measurements,
                data=data,
                samples=None if isinstance(samples, str) else samples,
                seed=seed,
                weights=weights,
                data_dir=data_dir,
                workers=workers,
                on_step=progress.show,
                say=progress.say,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the readings so far are kept, and the same command goes on") from None
    for one in found:
        if one.remark:
            click.echo(f"{one.label}: {one.remark}", err=True)
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in found], indent=1))
    else:
        _print(found)
    if figures is not None:
        _draw(found, runs, figures, tsne, data_dir, weights)
    return 0


def _print(found: Sequence[Measured]) -> None:
    from rich.console import Console

    from flatfed.reports.flatness import tables, verdicts

    width = max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE
    across = width if sys.stdout.isatty() else UNBOUNDED  # off a terminal nothing need fit
    for table in tables(found, across):
        Console(width=across, highlight=False).print(table)
    for note in dict.fromkeys(one.note for one in found):
        click.echo(f"losses over: {note}")
    for line in verdicts(found):
        click.echo(textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False))


def _draw(
    found: Sequence[Measured], runs: list[Path], folder: Path, tsne: bool, data_dir: str | None, weights: Weights
) -> None:
    from flatfed.experiments.flatness import map_features
    from flatfed.reports.figures.embedding import draw_embeddings
    from flatfed.reports.flatness import draw

    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = draw(found, folder)
        if tsne:
            files += (pair := [folder / "features.png", folder / "features.svg"])
            draw_embeddings(map_features(runs, data_dir=data_dir, weights=weights), pair)
    except OSError as error:
        raise ConfigError(f"--figures {folder}: {error.strerror}") from None
    click.echo(
        f"figures: {', '.join(str(file) for file in files) or 'nothing that was measured can be drawn'}", err=True
    )
