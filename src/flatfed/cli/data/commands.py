"""`flatfed data`: get official files, check them, and tell what is in place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.data.show import show
from flatfed.core.errors import ConfigError, nearest

if TYPE_CHECKING:
    from flatfed.data.acquiring.checks import Finding
    from flatfed.data.acquiring.directory import DataDirectory

FAILED = 1


class _Group(click.Group):
    """Suggests the nearest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest ones."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(nearest(args[0], self.commands, "command"), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Group, short_help="Get, check and list data sets.")
def data() -> None:
    """Get the official files of data sets, check them, and tell what is in place.

    \b
      flatfed data list                which data sets are in place
      flatfed data get cifar10         download it
      flatfed data check cifar10       is it what it should be?
      flatfed data show cifar10        how it is divided among clients

    Exit codes: 0 done, 1 a download or a check failed, 2 a mistake in what was asked for, or nothing to check.
    """


data.add_command(show)

_where = click.option(
    "--data-dir", default=None, help="Where data sets lie.  [default: $FLATFED_DATA, or ~/.cache/flatfed/data]"
)
_json = click.option("--json", "as_json", is_flag=True, help="Print as JSON.")


@data.command(short_help="Download a data set's official files.")
@click.argument("name")
@_where
def get(name: str, data_dir: str | None) -> int:
    """Download the official files of NAME and put them in place.

    A broken download goes on where it stopped. Files are checked before they are unpacked; official files that
    are there are left alone, damaged or other ones are fetched again. An official archive that you put into the data
    directory yourself is used instead of the network.
    """
    from flatfed.cli.data.progress import Fetching
    from flatfed.data.acquiring.directory import DataDirectory
    from flatfed.data.acquiring.downloads import DownloadError
    from flatfed.data.acquiring.downloads import get as fetch
    from flatfed.data.acquiring.official import OFFICIAL

    directory = DataDirectory(data_dir)
    if name not in OFFICIAL or not OFFICIAL[name].downloads:
        return _without_download(name, directory)
    try:
        with Fetching() as report:
            fetched = fetch(name, directory, OFFICIAL, report)
    except DownloadError as error:
        click.echo(f"Error: {_as_typed(str(error), data_dir)}", err=True)
        return FAILED
    click.echo(f"{name} is in {directory.path}" if fetched else f"{name} is already in {directory.path}")
    return 0


def _as_typed(text: str, data_dir: str | None) -> str:
    """Let the command that is to be given again name the data directory that was typed."""
    import shlex

    return text if data_dir is None else text.replace("` again", f" --data-dir {shlex.quote(data_dir)}` again")


def _without_download(name: str, directory: DataDirectory) -> int:
    """Tell where a data set comes from that cannot be downloaded."""
    from flatfed.data.acquiring.official import OFFICIAL
    from flatfed.data.acquiring.places import BUILT_IN, IN_PLACE, OWN, place
    from flatfed.data.catalogue import find

    official = OFFICIAL.get(name)
    found = place(find(name), directory, official)
    if found.state in (BUILT_IN, IN_PLACE):
        click.echo(f"{name} is {'part of an installed package' if found.state == BUILT_IN else 'in place'}")
        return 0
    if found.state == OWN:
        how = found.lacking.removeprefix(f"{name}: ")
        raise ConfigError(
            f"{name} stands for data of your own, which are not downloaded; with `flatfed run {name} ...` {how} "
            "(docs/own-data.md)"
        )
    page = f" from {official.home}" if official is not None else ""
    wanted = found.lacking.removeprefix(f"{name}: ").partition(" is missing")[0]
    raise ConfigError(f"{name} cannot be downloaded by a command: put {wanted} in place{page} (docs/data.md tells how)")


@data.command(short_help="Check that a data set is what it should be.")
@click.argument("name")
@_where
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="An option of the data set, as in `run`.")
@_json
def check(name: str, data_dir: str | None, settings: tuple[str, ...], as_json: bool) -> int:
    """Read NAME and compare it with what is known.

    Looked at are the number of examples, classes and natural clients, the range of values and, for official data
    sets, mean and standard deviation per channel and the checksums of the files. Other files that hold the same
    examples, in another order say, are noted but not refused.
    """
    from flatfed.cli.options.given import DATA
    from flatfed.data.acquiring.checks import WRONG
    from flatfed.data.acquiring.checks import check as examine
    from flatfed.experiments.spelling.methods import parse_setting

    options = {key.removeprefix(DATA): value for key, value in map(parse_setting, settings)}
    findings = examine(name, data_dir, options)
    wrong = sum(finding.state == WRONG for finding in findings)
    if as_json:
        rows = [vars(finding) for finding in findings]
        click.echo(json.dumps({"dataset": name, "ok": not wrong, "checks": rows}, indent=1))
    else:
        _print_findings(findings)
        click.echo(_verdict(name, findings))
    return FAILED if wrong else 0


def _verdict(name: str, findings: list[Finding]) -> str:
    states = [finding.state for finding in findings]
    if "wrong" in states:
        return f"{name}: {states.count('wrong')} of {len(states)} checks failed"
    return f"{name} is in order" + (", except for what is noted" if "note" in states else "")


def _print_findings(findings: list[Finding]) -> None:
    colours = {"ok": "green", "note": "yellow", "wrong": "red"}
    rows = [[finding.what, finding.found, finding.expected, finding.state] for finding in findings]
    _print_table(["", "found", "expected", ""], rows, colours)


@data.command(name="list", short_help="List data sets and whether they are in place.")
@_where
@_json
def listing(data_dir: str | None, as_json: bool) -> int:
    """List the data sets and whether their files are in the data directory."""
    from flatfed.data.acquiring.directory import DataDirectory
    from flatfed.data.acquiring.official import OFFICIAL
    from flatfed.data.acquiring.places import place
    from flatfed.data.catalogue import datasets, find

    directory = DataDirectory(data_dir)
    entries: list[dict[str, Any]] = []
    for id, about in datasets().items():
        found = place(find(id), directory, OFFICIAL.get(id))
        entries.append({"id": id, "state": found.state, "about": about, "lacking": found.lacking})
    if as_json:
        click.echo(json.dumps({"data_dir": str(directory.path), "datasets": entries}, indent=1))
        return 0
    click.echo(f"data directory: {directory.path}")
    colours = {"missing": "dim", "needs options": "dim", "incomplete": "red"}
    _print_table(["", "", ""], [[entry["id"], entry["state"], entry["about"]] for entry in entries], colours)
    return 0


def _print_table(names: list[str], rows: list[list[str]], colours: dict[str, str]) -> None:
    import shutil
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from flatfed.cli.output.results import WIDE

    table = Table(*names, box=None, show_header=any(names), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for row in rows:
        table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
    width = max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE
    Console(width=width, highlight=False).print(table)
