"""`flatfed list`: what there is."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import Any

import click

from flatfed.core.errors import ConfigError

COLUMNS = "{:<9}{:<24}{:<11}"
KINDS = ("algorithms", "datasets", "models", "partitions", "augmentations", "measurements")


@click.command(name="list", short_help="List algorithms, datasets, models, partitions, augmentations or measurements.")
@click.argument("kind", type=click.Choice(KINDS), required=False, metavar="KIND")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the algorithms as the table of the documentation.")
def listing(kind: str | None, as_json: bool, as_markdown: bool) -> int:
    """List what there is of a KIND: algorithms, datasets, models, partitions, augmentations or measurements.

    With algorithms: the model-sized vectors that go down and up per client and round, the backprops per local step, and
    whether any client optimiser may be added (METHOD+sam) or the method has its own; all counted on a tiny run. Client
    optimisers and averages follow, marked +.
    """
    if kind is None:
        raise ConfigError(f"say what to list: {', '.join(KINDS)}")
    if as_markdown:
        return _markdown(kind)
    lists = {"algorithms": _algorithms, "datasets": _datasets, "models": _models, "measurements": _measurements}
    entries = (lists | {"partitions": _partitions, "augmentations": _augmentations})[kind]()
    if as_json:
        click.echo(json.dumps(entries, indent=1))
        return 0
    indent = max(len(entry["id"]) for entry in entries) + 2
    if kind == "algorithms":
        click.echo(" " * indent + COLUMNS.format("down/up", "backprops", "optimiser").rstrip())
    for entry in entries:
        click.echo(_wrapped(f"{entry['id']:<{indent}}{_cost(entry)}{entry['about']}", indent))
        if entry.get("parameters"):
            shown = ", ".join(f"{n}={_shown(v)}" for n, v in entry["parameters"].items())
            click.echo(_wrapped(f"{'':<{indent}}{shown}", indent))
    return 0


def _markdown(kind: str) -> int:
    if kind != "algorithms":
        raise ConfigError("--markdown is for algorithms")
    from flatfed.experiments.comparing.index import markdown

    click.echo(markdown(), nl=False)
    return 0


def _cost(entry: dict[str, Any]) -> str:
    """Return the columns of costs; only algorithms and client optimisers have them."""
    if "backprops" not in entry and not entry["id"].startswith("+"):
        return ""
    traffic = f"{entry['down']}/{entry['up']}" if "down" in entry else ""
    return COLUMNS.format(traffic, entry.get("backprops", ""), entry.get("client_optimiser", ""))


def _wrapped(line: str, indent: int) -> str:
    """Fit a line to the terminal, if there is one."""
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _algorithms() -> list[dict[str, Any]]:
    from flatfed.experiments.comparing.index import entries

    return entries()


def _partitions() -> list[dict[str, Any]]:
    from flatfed.data.partition import Partitioner
    from flatfed.experiments.comparing.index import about

    return [about(id, cls) for id, cls in sorted(Partitioner.registry.items())]


def _measurements() -> list[dict[str, Any]]:
    from flatfed.experiments.comparing.index import about
    from flatfed.flatness.measurements import Measurement

    return [about(id, cls) for id, cls in sorted(Measurement.registry.items())]


def _datasets() -> list[dict[str, Any]]:
    from flatfed.data.catalogue import datasets

    return [{"id": id, "about": about} for id, about in datasets().items()]


def _augmentations() -> list[dict[str, Any]]:
    from flatfed.data.augment.spelling import augmentations

    return [{"id": id, "about": f"{about[0].upper()}{about[1:]}."} for id, about in augmentations().items()]


def _models() -> list[dict[str, Any]]:
    from flatfed.models import models
    from flatfed.models.catalogue import options_of

    return [{"id": id, "about": about, "parameters": options_of(id)} for id, about in models().items()]


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
