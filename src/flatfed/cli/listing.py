"""`flatfed list`: what there is."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
import textwrap
from typing import Any

import click

from flatfed.core.errors import ConfigError

KINDS = ("algorithms", "datasets", "models", "partitions")


@click.command(name="list", short_help="List algorithms, datasets, models or partitions.")
@click.argument("kind", type=click.Choice(KINDS), required=False, metavar=f"{{{'|'.join(KINDS)}}}")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def listing(kind: str | None, as_json: bool) -> int:
    """List algorithms (with client optimisers and averages, marked +), datasets, models or partitions."""
    if kind is None:
        raise ConfigError(f"say what to list: {', '.join(KINDS)}")
    entries = {"algorithms": _algorithms, "datasets": _datasets, "models": _models, "partitions": _partitions}[kind]()
    if as_json:
        click.echo(json.dumps(entries, indent=1))
        return 0
    indent = max(len(entry["id"]) for entry in entries) + 2
    for entry in entries:
        click.echo(_wrapped(f"{entry['id']:<{indent}}{entry['about']}", indent))
        if entry.get("parameters"):
            shown = ", ".join(f"{n}={_shown(v)}" for n, v in entry["parameters"].items())
            click.echo(_wrapped(f"{'':<{indent}}{shown}", indent))
    return 0


def _wrapped(line: str, indent: int) -> str:
    """Fit a line to the terminal, if there is one."""
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _algorithms() -> list[dict[str, Any]]:
    from flatfed.algorithms import Algorithm, Average, ClientOptimiser

    families = (("", Algorithm), ("+", ClientOptimiser), ("+", Average))
    return [_entry(f"{mark}{id}", cls) for mark, family in families for id, cls in sorted(family.registry.items())]


def _partitions() -> list[dict[str, Any]]:
    from flatfed.data.partition import Partitioner

    return [_entry(id, cls) for id, cls in sorted(Partitioner.registry.items())]


def _datasets() -> list[dict[str, Any]]:
    from flatfed.data.catalogue import datasets

    return [{"id": id, "about": about} for id, about in datasets().items()]


def _models() -> list[dict[str, Any]]:
    from flatfed.models import models

    return [{"id": id, "about": about} for id, about in models().items()]


def _entry(id: str, cls: Any) -> dict[str, Any]:
    from flatfed.core.config import parameters

    defaults = {name: getattr(cls, name, None) for name in parameters(cls)}
    shown = {name: getattr(value, "id", value) for name, value in defaults.items()}
    return {"id": id, "about": (inspect.getdoc(cls) or "").partition("\n")[0], "parameters": shown}


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)
