"""`flatfed flatness`: measure how flat the minima of runs are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_data_option,
    data_dir_option,
    declared_option,
    option,
    space_option,
    trust_option,
    weights_option,
    workers_option,
)
from flatfed.cli.options.values import Whole, within_option
from flatfed.cli.output.files import refuse_unwritable, written_for
from flatfed.cli.output.progress import StepProgress, interruptible
from flatfed.cli.output.results import print_notes, print_tables, table_width
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError
from flatfed.experiments.spelling.kinds import at_most
from flatfed.experiments.spelling.measured import FLATNESS, MODELS

if TYPE_CHECKING:
    from flatfed.experiments.measuring.protocols import Asked
    from flatfed.experiments.measuring.saved_runs import SavedRun
    from flatfed.flatness.drawable import Embedding
    from flatfed.reports.flatness import Measured
    from flatfed.reports.tables.grid import Sheet

FORMS = ("table", "markdown", "csv")

Options = dict[str, Any]


@click.command(cls=GroupedCommand, short_help="Measure how flat the minima of runs are.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@declared_option(
    "--measure",
    "What to measure; parameters in brackets: lpf(samples=20). See flatfed list measurements.",
    FLATNESS["measure"],
    metavar="NAME,...",
)
@declared_option("--data", "Examples: `train` (all clients), a test set, `client N`.", FLATNESS["data"])
@declared_option("--samples", "Measure over at most N of those examples.", FLATNESS["samples"])
@declared_option("--seed", "Seed of that draw.", FLATNESS["seed"])
@weights_option
@space_option
@declared_option(
    "--protocol",
    "Measure as a paper's code does. fedgloss: λmax and λmax/λ5 by power iteration on the test set, with the "
    "other CIFAR's normalisation, of the mean of the last 100 models.",
    FLATNESS["protocol"],
    group="evaluation",
)
@option("--figures", "Draw what was measured into this folder.", click.Path(path_type=Path), group="figures")
@option(
    "--tsne",
    "With --figures: also map the penultimate features of 3,000 test examples.",
    is_flag=True,
    group="figures",
)
@option(
    "--tsne-clients",
    "With --figures: map the features that the global model and N clients' models of the last round have of the "
    "same test examples, together; 3,000 points at most.",
    Whole(1),
    group="figures",
)
@option("--by-client", "Show a row for each client, with the class it holds most of.", is_flag=True, group="output")
@option("--format form", "How the table is printed.", click.Choice(FORMS), "table", group="output")
@data_dir_option
@workers_option
@trust_option
@accept_data_option
@option("--json as_json", "Print the results as JSON, every client included.", is_flag=True, group="output")
@click.pass_context
def flatness(ctx: click.Context, /, paths: tuple[Path, ...], **options: Any) -> int:
    """Measure the model of each RUN: a run directory, a comparison, or one checkpoint (RUN/checkpoints/round-...).

    Results are kept in RUN/flatness/results.json; what was measured in the same way is not measured again. An
    eigenvalue comes with its residual (a true eigenvalue is at most that far away) and a remark; estimates with their
    standard error.
    """
    from flatfed.experiments.measuring.protocols import asked_for
    from flatfed.experiments.measuring.saved_runs import open_all, runs_named

    _refuse_contradictions(ctx)
    if options["figures"] is not None:
        refuse_unwritable("--figures", options["figures"], options["figures"])
    with within_option("--measure"):
        asked = asked_for(options)
    draws_maps = options["tsne"] or options["tsne_clients"] is not None
    # Maps ask for the data once more, after the measurements.
    allowed = options["trust"], options["accept_changed_data"]
    runs = open_all(runs_named(paths), draws_maps, *allowed)
    results = _measure(runs, asked, options)
    _report(results, options)
    if options["figures"] is not None:
        _draw(results, runs, options)
    return 0


def _report(results: Sequence[Measured], options: Options) -> None:
    """Print what was measured; remarks go to standard error."""
    for result in results:
        if result.remark:
            # To standard error, so that the table can be piped.
            echo(f"{result.label}: {result.remark}", err=True)
    if options["as_json"]:
        _print_json(results)
    else:
        _print(results, options["by_client"], options["form"])


def _print_json(results: Sequence[Measured]) -> None:
    echo(json.dumps([result.to_dict() for result in results], indent=1))


def _refuse_contradictions(ctx: click.Context) -> None:
    """Refuse options that mean nothing without another, or that another decides."""
    typed = _typed(ctx)
    if "figures" not in typed:
        _refuse_maps(typed)
    _refuse_many_clients(ctx.params["tsne_clients"])
    if {"form", "as_json"} <= typed:
        raise ConfigError("--format and --json are two ways to print; give one of them")
    if "protocol" in typed:
        _refuse_decided(typed)


def _typed(ctx: click.Context) -> set[str]:
    # Defaults contradict nothing.
    return {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _refuse_maps(typed: set[str]) -> None:
    """Refuse maps of features where there is no place to draw them."""
    for name in ("tsne", "tsne_clients"):
        if name in typed:
            raise ConfigError(f"--{name.replace('_', '-')} says what --figures DIR draws; give that too")


def _refuse_many_clients(clients: int | None) -> None:
    if clients is not None and clients > MODELS:
        raise ConfigError(f"--tsne-clients: a map shows at most {MODELS} clients, not {clients}")


def _refuse_decided(typed: set[str]) -> None:
    """Refuse what a protocol decides."""
    for name in ("measure", "data", "weights", "space"):
        if name in typed:
            raise ConfigError(f"--protocol decides what is measured, and of what; leave out --{name}")


def _measure(runs: list[SavedRun], asked: Asked, options: Options) -> list[Measured]:
    from flatfed.experiments.measuring.flatness import measure_runs

    with (
        StepProgress("measurements", at_once=False) as progress,
        interruptible("interrupted; the results so far are kept, and the same command goes on"),
    ):
        return measure_runs(
            runs,
            asked.measurements,
            data=asked.data,
            samples=at_most(options["samples"]),
            seed=options["seed"],
            weights=options["weights"],
            space=options["space"],
            data_dir=options["data_dir"],
            workers=options["workers"],
            on_step=progress.show,
            say=progress.say,
            opened=asked.opened,
            # Only these tell which class a client holds most of.
            classes=options["by_client"] or options["as_json"],
        )


def _print(results: Sequence[Measured], by_client: bool, form: str) -> None:
    from flatfed.reports import flatness as reports

    make = reports.by_client if by_client else reports.by_number
    if form == "markdown":
        echo(make(results).markdown(), nl=False)
    elif form == "csv":
        echo(make(results).csv(), nl=False)
    else:
        _print_table(results, make)


def _print_table(results: Sequence[Measured], make: Callable[[Sequence[Measured]], Sheet]) -> None:
    from flatfed.reports.flatness import remarks, tables

    width = table_width()
    print_tables([sheet.terminal() for sheet in tables(results, width, make)], width)
    # Runs over the same examples share a note.
    notes = dict.fromkeys(f"losses over: {result.note}" for result in results)
    echo("\n".join(notes))
    print_notes(remarks(results))


def _draw(results: Sequence[Measured], runs: list[SavedRun], options: Options) -> None:
    from flatfed.reports.figures.drawing.writing import PictureFiles
    from flatfed.reports.flatness_figures import draw

    folder: Path = options["figures"]
    with written_for("--figures", folder):
        folder.mkdir(parents=True, exist_ok=True)
        files = draw(results, PictureFiles(folder)) + _draw_maps(runs, folder, options)
    listed = ", ".join(map(str, files)) or "nothing that was measured can be drawn"
    echo(f"figures: {listed}", err=True)


def _draw_maps(runs: list[SavedRun], folder: Path, options: Options) -> list[Path]:
    """Draw the maps of features that are asked for."""
    from flatfed.experiments.measuring.feature_maps import map_clients, map_features

    files: list[Path] = []
    data_dir, clients = options["data_dir"], options["tsne_clients"]
    if options["tsne"]:
        maps = map_features(runs, data_dir=data_dir, weights=options["weights"])
        files += _draw_map(maps, folder / "features")
    if clients is not None:
        maps = map_clients(runs, clients, data_dir=data_dir)
        files += _draw_map(maps, folder / "client-features")
    return files


def _draw_map(maps: list[Embedding], path: Path) -> list[Path]:
    from flatfed.reports.figures.drawing.writing import PictureFiles
    from flatfed.reports.figures.embedding import draw_embeddings

    files = PictureFiles(path.parent).of(path.name)
    draw_embeddings(maps, files)
    return files
