"""`flatfed list`: what there is."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import GroupedCommand, option
from flatfed.cli.output.found_runs import print_runs
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.configuration.registry import Registry

COLUMNS = "{:<9}{:<26}{:<11}"
"""Costs of an algorithm: vectors down and up, backprops, client optimiser."""

FEWEST = 50
"""Letters of a line of words, at least: with fewer they stand on lines of their own."""
UNBOUNDED = 10_000

Entry = dict[str, Any]


def _algorithms() -> list[Entry]:
    from flatfed.algorithms.spelling import PARTS
    from flatfed.experiments.comparing.index import entries

    for family in PARTS:
        _enter(family)
    return entries()


def _members(family: Registry[Any]) -> list[Entry]:
    """Return the members of a family, those of installed packages included."""
    from flatfed.experiments.comparing.index import about

    _enter(family)
    return [about(id, cls) for id, cls in sorted(family.items())]


def _enter(family: Registry[Any]) -> None:
    """Enter what packages have of a family; what is wrong with one of them is said, and the rest is there."""
    from flatfed.outside.installed import enter_installed

    _enter_all(family.kind, functools.partial(enter_installed, family))


def _enter_all(kind: str, enter: Callable[[str], None]) -> None:
    from flatfed.outside.installed import enter_all

    for problem in enter_all(kind, enter):
        warnings.warn(problem, stacklevel=2)


def _partitions() -> list[Entry]:
    from flatfed.data.partition import Partitioner

    return _members(Partitioner.registry)


def _samplers() -> list[Entry]:
    from flatfed.core.round.sampling import Sampler

    return _members(Sampler.registry)


def _schedules() -> list[Entry]:
    from flatfed.core.configuration.schedules import Schedule

    return _members(Schedule.registry)


def _base_optimisers() -> list[Entry]:
    from flatfed.algorithms import BaseOptimiser

    return _members(BaseOptimiser.registry)


def _measurements() -> list[Entry]:
    from flatfed.flatness.measurements import Measurement

    return _members(Measurement.registry)


def _engines() -> list[Entry]:
    from flatfed.engines.choice import engines

    return _members(engines())


def _trackers() -> list[Entry]:
    from flatfed.tracking.tracker import trackers

    return _members(trackers())


def _metrics() -> list[Entry]:
    from flatfed.outside.installed import installed_parts

    parts = installed_parts("metric")
    return [{"id": id, "about": entry[0].entry.value, "from": entry[0].home} for id, entry in sorted(parts.items())]


def _datasets() -> list[Entry]:
    from flatfed.cli.data.tables import warn_of_broken_modules
    from flatfed.data.catalogue import datasets, enter_installed, find
    from flatfed.experiments.comparing.index import home_of

    warn_of_broken_modules()
    _enter_all("data set", enter_installed)
    return [{"id": id, "about": about, **home_of(find(id).written)} for id, about in datasets().items()]


def _augmentations() -> list[Entry]:
    from flatfed.data.augment.spelling import augmentations

    return [{"id": id, "about": _sentence(about)} for id, about in augmentations().items()]


def _sentence(about: str) -> str:
    return f"{about[0].upper()}{about[1:]}."


def _models() -> list[Entry]:
    from flatfed.experiments.comparing.index import home_of
    from flatfed.models import models
    from flatfed.models.catalogue import builder_of, enter_installed, options_of

    _enter_all("model", enter_installed)
    known = models().items()
    return [{"id": id, "about": about, "parameters": options_of(id), **home_of(builder_of(id))} for id, about in known]


RUNS = "runs"
LISTS: dict[str, Callable[[], list[Entry]]] = {
    "algorithms": _algorithms,
    "base-optimisers": _base_optimisers,
    "datasets": _datasets,
    "models": _models,
    "partitions": _partitions,
    "samplers": _samplers,
    "schedules": _schedules,
    "metrics": _metrics,
    "engines": _engines,
    "trackers": _trackers,
    "augmentations": _augmentations,
    "measurements": _measurements,
}


@click.command(
    name="list",
    cls=GroupedCommand,
    short_help="List algorithms, base optimisers, datasets, models, partitions, measurements, trackers or runs.",
)
@click.argument("kind", type=click.Choice([*LISTS, RUNS]), required=False, metavar="KIND")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@option("--json as_json", "Print as JSON.", is_flag=True)
@option("--markdown as_markdown", "Print the algorithms as the table of the documentation.", is_flag=True)
def listing(kind: str | None, folder: Path | None, as_json: bool, as_markdown: bool) -> int:
    """List what there is of a KIND: algorithms, base-optimisers, datasets, models, partitions, samplers, schedules,
    metrics, engines, trackers, augmentations, measurements or runs.

    With algorithms: the model-sized vectors that go down and up per client and round, the backprops per local step, and
    whether any client optimiser may be added (METHOD+sam) or the method has its own; all counted on a tiny run. Client
    optimisers and averages follow, marked +. With runs: those below FOLDER, runs/ where none is named.
    """
    if kind is None:
        raise ConfigError(f"say what to list: {', '.join([*LISTS, RUNS])}")
    if kind == RUNS:
        return print_runs(folder or Path(RUNS), as_json)
    if folder is not None:
        raise ConfigError(f"{folder}: a folder is for `flatfed list {RUNS} FOLDER`; {kind} are not in one")
    if as_markdown:
        return _print_markdown(kind)
    entries = LISTS[kind]()
    if as_json:
        echo(json.dumps(entries, indent=1))
        return 0
    if not entries:
        echo(f"no package that is installed offers {kind} by name", err=True)
    _print_text(kind, entries)
    return 0


def _print_markdown(kind: str) -> int:
    if kind != "algorithms":
        raise ConfigError("--markdown is for algorithms")
    from flatfed.experiments.comparing.index import markdown

    echo(markdown(), nl=False)
    return 0


def _print_text(kind: str, entries: list[Entry]) -> None:
    indent = max((len(entry["id"]) for entry in entries), default=0) + 2
    if kind == "algorithms":
        echo(" " * indent + COLUMNS.format("down/up", "backprops", "optimiser").rstrip())
    for entry in entries:
        _print_entry(entry, indent)


def _print_entry(entry: Entry, indent: int) -> None:
    head = f"{entry['id']:<{indent}}{_cost(entry)}"
    if len(head) == indent or _room(len(head)) >= FEWEST:
        echo(_wrapped(f"{head}{entry['about']}", len(head)))
    else:  # a column of a few words each would be broken again and again
        echo(head.rstrip())
        echo(_wrapped(f"{'':<{indent}}{entry['about']}", indent))
    if entry.get("parameters"):
        echo(_wrapped(f"{'':<{indent}}{_parameters(entry)}", indent))
    if entry.get("from"):
        echo(_wrapped(f"{'':<{indent}}from {entry['from']}", indent))


def _room(start: int) -> int:
    """Return how many letters there are behind a place of a line; a pipe has no end."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return shutil.get_terminal_size().columns - start


def _cost(entry: Entry) -> str:
    """Return the columns of costs; only algorithms and client optimisers have them."""
    is_suffix = entry["id"].startswith("+")
    if "backprops" not in entry and not is_suffix:
        return ""
    return COLUMNS.format(_traffic(entry), entry.get("backprops", ""), entry.get("client_optimiser", ""))


def _traffic(entry: Entry) -> str:
    if "down" not in entry:
        return ""
    return f"{entry['down']}/{entry['up']}"


def _parameters(entry: Entry) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in entry["parameters"].items())


def _shown(value: Any) -> str:
    """Return a default as it is typed: null, true and false as in YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value)


def _wrapped(line: str, indent: int) -> str:
    """Fit a line to the terminal, if there is one."""
    # A pipe gets whole lines, for `grep` and the like.
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
