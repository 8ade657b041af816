"""`flatfed data show`: how a data set is divided among clients, in numbers and in a figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.given import Given, gather_settings, make_recipe
from flatfed.cli.options.training import alpha_option, beta_option
from flatfed.cli.options.values import Whole
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.experiments.tasks.recipe import TaskRecipe

BINS, BAR = 10, 40


@click.command(short_help="Show how a data set is divided among clients.")
@click.argument("dataset")
@click.option("--partition", default=None, help="Rule: flatfed list partitions.  [default: the data set's]")
@click.option("--clients", type=Whole(1), default=None, help="Clients in total.  [default: 100, or the partition's]")
@alpha_option
@beta_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the partition (partition.size_sigma=0.5) or an option of the data (data.NAME=X).",
)
@click.option(
    "--data-dir", default=None, help="Where data sets lie.  [default: $FLATFED_DATA, or ~/.cache/flatfed/data]"
)
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Random seed of the run.")
@click.option("--partition-seed", type=Whole(0), default=None, help="Seed of the partition.  [default: the seed]")
@click.option(
    "--figure", type=click.Path(path_type=Path), default=None, help="Also draw who holds what (.png or .svg)."
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, with the figures of every client.")
@click.pass_context
def show(ctx: click.Context, /, dataset: str, figure: Path | None, as_json: bool, seed: int, **options: Any) -> int:
    """Show how DATASET is divided among clients: sizes, classes per client, and the fingerprint of the partition.

    The options are those of `flatfed run`; a run with the same ones and the same seed has this partition, and its
    config.json the same fingerprint (partition_sha256).
    """
    if figure is not None and figure.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"--figure {figure}: the name must end in .png or .svg")
    given = gather_settings(ctx, options["settings"], [])
    _refuse_others(given)
    recipe = make_recipe(dataset, _defaults_of_run() | options, given, seed)
    report, table = _report(recipe)
    click.echo(json.dumps(report, indent=1) if as_json else "\n".join(_lines(report)))
    if figure is not None:
        from flatfed.reports.class_distribution import draw_holdings

        figure.parent.mkdir(parents=True, exist_ok=True)
        draw_holdings(table, [figure], _title(report))
        click.echo(f"figure: {figure}", err=True)
    return 0


def _defaults_of_run() -> dict[str, Any]:
    """Return what `flatfed run` has where nothing is said."""
    from flatfed.cli.commands.run import run

    return run.make_context("run", ["dataset", "algorithm"]).params


def _refuse_others(given: Given) -> None:
    """Refuse settings that have nothing to do with how data is divided."""
    for name in [*given.methods, *(f"model.{name}" for name in given.model)]:
        raise ConfigError(
            f"--set {name}: here are only settings of the partition (partition.NAME) and the data (data.NAME)"
        )


def _report(recipe: TaskRecipe) -> tuple[dict[str, Any], Any]:
    """Return the partition in numbers, and how many samples of each class each client holds."""
    import numpy as np
    from torch import nn

    from flatfed.core.task.examples import Partition
    from flatfed.core.task.task import Task
    from flatfed.data.partition import Partitioner, class_counts, describe
    from flatfed.experiments.tasks.recipe import FINGERPRINT, fingerprint

    pool, parts = recipe.pool(), recipe.parts()
    table = class_counts(parts, np.asarray(pool.labels), pool.classes)
    report = {
        "dataset": recipe.dataset,
        "partition": recipe.partition,
        "meaning": Partitioner.registry.from_dict(recipe.partition).meaning(pool.classes),
        "seed": recipe.seed,
        "partition_seed": recipe.partition_seed,
        **describe(parts, np.asarray(pool.labels)),
        "classes": pool.classes,
        FINGERPRINT: fingerprint(Task(nn.Identity(), Partition.over(pool.train, parts))),
        "sizes": table.sum(axis=1).tolist(),
        "classes_held": (table > 0).sum(axis=1).tolist(),
    }
    return report, table


def _title(report: dict[str, Any]) -> str:
    values = ", ".join(f"{n}={v}" for n, v in report["partition"].items() if n != "id" and v != "")
    rule = report["partition"]["id"] + (f"({values})" if values else "")
    own = report["partition_seed"]
    key = f"seed {report['seed']}" if own is None else f"partition seed {own}"
    return f"{report['dataset']}: {rule}, {report['clients']} clients, {key}"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    samples, unused = report["samples"], report["unused"]
    yield _title(report)
    yield ""
    yield f"clients             {report['clients']:,}"
    yield f"samples             {samples:,} of {samples + unused:,}, {unused:,} unused"
    yield f"samples per client  {_range(report['samples_per_client'])}"
    yield f"classes per client  {_range(report['classes_per_client'])}, of {report['classes']}"
    if report["meaning"]:
        yield f"concentration       {report['meaning']}"
    yield f"partition_sha256    {report['partition_sha256']}"
    for title, counts in {"classes": report["classes_held"], "samples": report["sizes"]}.items():
        yield ""
        yield from _histogram(f"{title} per client", counts)


def _range(summary: dict[str, float]) -> str:
    return f"min {summary['min']:,}, mean {summary['mean']:,.2f}, max {summary['max']:,}"


def _histogram(title: str, counts: list[int]) -> Iterator[str]:
    """Yield how many clients have which number: each number by itself where they are few, else equal ranges."""
    low, high = min(counts), max(counts)
    width = max(1, -(-(high - low + 1) // BINS))
    found = [0] * ((high - low) // width + 1)
    for count in counts:
        found[(count - low) // width] += 1
    names = [_bounds(low + width * index, width, high) for index in range(len(found))]
    size = max(len(title), *map(len, names))
    yield f"{title:<{size}}  clients"
    for name, clients in zip(names, found, strict=True):
        yield f"{name:>{size}}  {clients:>7,}  {'#' * -(-BAR * clients // max(found))}".rstrip()


def _bounds(start: int, width: int, high: int) -> str:
    end = min(start + width - 1, high)
    return f"{start:,}" if end == start else f"{start:,}-{end:,}"
