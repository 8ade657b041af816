"""`flatfed data show`: how a data set is divided among clients, in numbers and in a figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.making.training import run_options
from flatfed.cli.options.groups import GroupedCommand, option
from flatfed.cli.options.training import alpha_option, beta_option
from flatfed.cli.options.values import Whole
from flatfed.cli.output.files import refuse_other_pictures, tell_figure
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.spelling.options import NamedSettings, RunOptions
    from flatfed.experiments.tasks.division import Division
    from flatfed.experiments.tasks.recipe import TaskRecipe

BINS, BAR = 10, 40


@click.command(cls=GroupedCommand, short_help="Show how a data set is divided among clients.")
@click.argument("dataset")
@option("--partition", "Rule: flatfed list partitions.  [default: the data set's]", str)
@option("--clients", "Clients in total.  [default: 100, or the partition's]", Whole(1))
@alpha_option
@beta_option
@option(
    "--set settings",
    "A parameter of the partition (partition.size_sigma=0.5) or an option of the data (data.NAME=X).",
    multiple=True,
    metavar="NAME=VALUE",
)
@option("--data-dir", "Where data sets lie.  [default: $FLATFED_DATA, or ~/.cache/flatfed/data]", str, group="data")
@option("--seed", "Random seed of the run.", Whole(0), 0)
@option("--partition-seed", "Seed of the partition.  [default: the seed]", Whole(0), group="data")
@option(
    "--figure",
    "Draw the class distribution (.png and its .pdf, .svg or .pdf).",
    click.Path(path_type=Path),
    group="output",
)
@option("--json as_json", "Print as JSON, with the numbers of every client.", is_flag=True, group="output")
@click.pass_context
def show(ctx: click.Context, /, dataset: str, figure: Path | None, as_json: bool, seed: int, **options: Any) -> int:
    """Show how DATASET is divided among clients: sizes, classes per client, and the fingerprint of the partition.

    The options are those of `flatfed run`; a run with the same ones and the same seed has this partition, and its
    config.json the same fingerprint (partition_sha256).
    """
    from flatfed.experiments.tasks.division import division_of

    # Refused now, because reading the data may take long.
    refuse_other_pictures(figure)
    division = division_of(_recipe(dataset, run_options(ctx), seed))
    report = division.report
    if as_json:
        echo(json.dumps(report, indent=1))
    else:
        echo("\n".join(_lines(division.title, report)))
    if figure is not None:
        _draw(figure, division)
    return 0


def _draw(figure: Path, division: Division) -> None:
    from flatfed.reports.class_distribution import draw_class_distribution
    from flatfed.reports.figures.drawing.writing import named_files

    files = named_files(figure)
    figure.parent.mkdir(parents=True, exist_ok=True)
    draw_class_distribution(division.table, files, division.title)
    tell_figure(files)


def _recipe(dataset: str, options: RunOptions, seed: int) -> TaskRecipe:
    """Return the recipe of a run with these options."""
    from flatfed.experiments.spelling.options import named_settings
    from flatfed.experiments.tasks.recipe_from_options import recipe_from

    named = named_settings(options, [])
    _refuse_others(named)
    return recipe_from(dataset, options, named, seed)


def _refuse_others(given: NamedSettings) -> None:
    """Refuse settings that have nothing to do with how data is divided."""
    for name in [*given.methods, *(f"model.{name}" for name in given.model)]:
        raise ConfigError(
            f"--set {name}: here are only settings of the partition (partition.NAME) and the data (data.NAME)"
        )


def _lines(title: str, report: dict[str, Any]) -> Iterator[str]:
    samples, unused = report["samples"], report["unused"]
    yield title
    yield ""
    yield f"clients             {report['clients']:,}"
    yield f"samples             {samples:,} of {samples + unused:,}, {unused:,} unused"
    yield f"samples per client  {_range(report['samples_per_client'])}"
    yield f"classes per client  {_range(report['classes_per_client'])}, of {report['classes']}"
    if report["meaning"]:
        yield f"concentration       {report['meaning']}"
    yield f"partition_sha256    {report['partition_sha256']}"
    for name, counts in {"classes": report["classes_held"], "samples": report["sizes"]}.items():
        yield ""
        yield from _histogram(f"{name} per client", counts)


def _range(summary: dict[str, float]) -> str:
    return f"min {summary['min']:,}, mean {summary['mean']:,.2f}, max {summary['max']:,}"


def _histogram(title: str, counts: list[int]) -> Iterator[str]:
    """Yield how many clients have which number: each number by itself where they are few, else equal ranges."""
    low, high = min(counts), max(counts)
    width = max(1, -(-(high - low + 1) // BINS))
    sizes = [0] * ((high - low) // width + 1)
    for count in counts:
        sizes[(count - low) // width] += 1
    names = [_bounds(start, width, high) for start in range(low, high + 1, width)]
    indent = max(len(title), *map(len, names))
    yield f"{title:<{indent}}  clients"
    for name, clients in zip(names, sizes, strict=True):
        yield f"{name:>{indent}}  {clients:>7,}  {_bar(clients, max(sizes))}".rstrip()


def _bar(clients: int, most: int) -> str:
    """Return a bar whose length is rounded up, so that a single client is seen."""
    return "#" * -(-BAR * clients // most)


def _bounds(start: int, width: int, high: int) -> str:
    end = min(start + width - 1, high)
    if end == start:
        return f"{start:,}"
    return f"{start:,}-{end:,}"
