"""`flatfed flatness`: measure how flat the minima of runs are."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from flatfed.cli.options.training import weights_option
from flatfed.cli.options.values import Whole
from flatfed.cli.output.progress import Steps
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.measuring.laboratory import Laboratory, Weights
    from flatfed.reports.flatness import Measured

DEFAULT = "loss,lambda_ratio,trace,lpf,sharpness,adaptive_sharpness,parameter_norm"
PROTOCOLS, FORMS = ("fedgloss",), ("table", "markdown", "csv")
WIDE, UNBOUNDED = 160, 10_000
MODELS = 6
"""Clients on a map of features, at most: each model has a mark of its own."""


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
@click.option(
    "--tsne-clients",
    type=Whole(1),
    default=None,
    help="With --figures: map the features that the global model and N clients' models of the last round have of the "
    "same test examples, together; 3,000 points at most.",
)
@click.option("--by-client", is_flag=True, help="Show a row for each client, with the class it holds most of.")
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    default=None,
    help="Measure as a paper's code does. fedgloss: λmax and λmax/λ5 by power iteration on the test set, with the "
    "other CIFAR's normalisation, of the mean of the last 100 models.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default="table",
    show_default=True,
    help="How the table is printed.",
)
@click.option("--data-dir", default=None, help="Where the data sets lie, if no longer where they were.")
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as the run]")
@click.option("--json", "as_json", is_flag=True, help="Print the readings as JSON, every client included.")
@click.pass_context
def flatness(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    measure: str,
    data: str,
    samples: int | str,
    seed: int,
    weights: Weights,
    figures: Path | None,
    tsne: bool,
    tsne_clients: int | None,
    by_client: bool,
    protocol: str | None,
    form: str,
    data_dir: str | None,
    workers: int | str | None,
    as_json: bool,
) -> int:
    """Measure the model of each RUN: a run directory, a comparison, or one checkpoint (RUN/checkpoints/round-...).

    Readings are kept in RUN/flatness/readings.json; what was measured in the same way is not measured again. An
    eigenvalue comes with its residual (a true one is at most so far away) and a verdict; estimates with their standard
    error.
    """
    from flatfed.experiments.measuring.flatness import measure_runs, runs_named
    from flatfed.experiments.measuring.laboratory import laboratory
    from flatfed.experiments.measuring.protocols import MEASURED, OVER, open_as_fedgloss
    from flatfed.experiments.spelling.measurements import parse_measurements

    _refuse_contradictions(ctx)
    opened: Callable[..., Laboratory] = laboratory
    if protocol is not None:
        measure, data, opened = MEASURED, OVER, open_as_fedgloss
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
                opened=opened,
                classes=by_client or as_json,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the readings so far are kept, and the same command goes on") from None
    for one in found:
        if one.remark:
            click.echo(f"{one.label}: {one.remark}", err=True)
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in found], indent=1))
    else:
        _print(found, by_client, form)
    if figures is not None:
        _draw(found, runs, figures, tsne, tsne_clients, data_dir, weights)
    return 0


def _refuse_contradictions(ctx: click.Context) -> None:
    """Refuse options that mean nothing without another, or that another decides."""
    given = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for name in ("tsne", "tsne_clients"):
        if name in given and "figures" not in given:
            raise ConfigError(f"--{name.replace('_', '-')} says what --figures DIR draws; give that too")
    if (ctx.params["tsne_clients"] or 0) > MODELS:
        raise ConfigError(f"--tsne-clients: a map shows at most {MODELS} clients, not {ctx.params['tsne_clients']}")
    if "form" in given and "as_json" in given:
        raise ConfigError("--format and --json are two ways to print; give one of them")
    if ctx.params["protocol"] is not None:
        for name in given & {"measure", "data", "weights"}:
            raise ConfigError(f"--protocol decides what is measured, and of what; leave out --{name}")


def _print(found: Sequence[Measured], by_client: bool, form: str) -> None:
    from rich.console import Console

    from flatfed.reports import flatness as reports

    make = reports.by_client if by_client else reports.by_number
    if form != "table":
        sheet = make(found)
        click.echo(sheet.markdown() if form == "markdown" else sheet.csv(), nl=False)
        return
    width = max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE
    across = width if sys.stdout.isatty() else UNBOUNDED  # off a terminal nothing need fit
    for sheet in reports.tables(found, across, make):
        Console(width=across, highlight=False).print(sheet.terminal())
    for note in dict.fromkeys(one.note for one in found):
        click.echo(f"losses over: {note}")
    for line in reports.verdicts(found):
        click.echo(textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False))


def _draw(
    found: Sequence[Measured],
    runs: list[Path],
    folder: Path,
    tsne: bool,
    tsne_clients: int | None,
    data_dir: str | None,
    weights: Weights,
) -> None:
    from flatfed.experiments.measuring.flatness import map_clients, map_features
    from flatfed.reports.figures.embedding import draw_embeddings
    from flatfed.reports.flatness import draw

    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = draw(found, folder)
        if tsne:
            files += (pair := [folder / "features.png", folder / "features.svg"])
            draw_embeddings(map_features(runs, data_dir=data_dir, weights=weights), pair)
        if tsne_clients is not None:
            files += (pair := [folder / "client-features.png", folder / "client-features.svg"])
            draw_embeddings(map_clients(runs, tsne_clients, data_dir=data_dir), pair)
    except OSError as error:
        raise ConfigError(f"--figures {folder}: {error.strerror}") from None
    click.echo(
        f"figures: {', '.join(str(file) for file in files) or 'nothing that was measured can be drawn'}", err=True
    )
