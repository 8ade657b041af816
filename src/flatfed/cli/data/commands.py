"""`flatfed data`: get official files, check them, and tell what is in place."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.data.show import show
from flatfed.cli.data.tables import print_table, warn_of_broken_modules
from flatfed.cli.options.groups import GroupedCommand, NearestGroup
from flatfed.cli.options.values import word_for
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.data.acquiring.findings import Finding
    from flatfed.data.acquiring.places import Place
    from flatfed.data.catalogue import Source
    from flatfed.data.directory import DataDirectory

FAILED = 1


@click.group(cls=NearestGroup, short_help="Get, check and list data sets.")
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


# --- get ------------------------------------------------------------------------------------------------------


@data.command(cls=GroupedCommand, short_help="Download a data set's official files.")
@click.argument("name")
@_where
def get(name: str, data_dir: str | None) -> int:
    """Download the official files of NAME and put them in place.

    A broken download goes on where it stopped. Files are checked before they are unpacked; official files that
    are there are left alone, damaged or other ones are fetched again. An official archive that you put into the data
    directory yourself is used instead of the network.
    """
    from flatfed.data.catalogue import find
    from flatfed.data.directory import DataDirectory

    source = find(name)
    directory = DataDirectory(data_dir)
    if not source.downloadable:
        return _without_download(source, directory)
    return _download(source, directory, _typed_command(name, data_dir))


def _download(source: Source, directory: DataDirectory, command: str) -> int:
    """Fetch the files; `command` is what to give again if that fails."""
    from flatfed.cli.data.progress import Fetching
    from flatfed.data.acquiring.downloads import NotFetched
    from flatfed.data.acquiring.downloads import get as fetch
    from flatfed.data.acquiring.transfer import DownloadError

    try:
        with Fetching() as report:
            fetched = fetch(source, directory, report)
    # In this order: `NotFetched` is a `DownloadError` too.
    except NotFetched as error:
        echo(f"Error: {error.message(command)}", err=True)
        return FAILED
    except DownloadError as error:
        echo(f"Error: {error}", err=True)
        return FAILED
    state = "is in" if fetched else "is already in"
    echo(f"{source.id} {state} {directory.path}")
    return 0


def _typed_command(name: str, data_dir: str | None) -> str:
    """Return the command as it was typed, with the data directory where one was named."""
    if data_dir is None:
        return f"flatfed data get {name}"
    return f"flatfed data get {name} --data-dir {shlex.quote(data_dir)}"


def _without_download(source: Source, directory: DataDirectory) -> int:
    """Tell where a data set comes from that cannot be downloaded."""
    from flatfed.data.acquiring.places import BUILT_IN, IN_PLACE, place

    placed = place(source, directory)
    if placed.state == BUILT_IN:
        echo(f"{source.id} is part of an installed package")
        return 0
    if placed.state == IN_PLACE or placed.error is None:
        echo(f"{source.id} is in place")
        return 0
    raise _by_hand(source, placed.error)


def _by_hand(source: Source, error: ConfigError) -> ConfigError:
    """Return the error that says how to get the data without this command."""
    from flatfed.data.directory import MissingData, MissingOption

    if isinstance(error, MissingOption):
        return ConfigError(
            f"{source.id} stands for data of your own, which are not downloaded; with `flatfed run {source.id} ...` "
            f"{error.request}, --set {error.assignment} (docs/own-data.md)"
        )
    if isinstance(error, MissingData):
        page = "" if source.official is None else f" from {source.official.home}"
        return ConfigError(
            f"{source.id} cannot be downloaded by a command: put {error.wanted} in place{page} (docs/data.md tells how)"
        )
    return error


# --- check ----------------------------------------------------------------------------------------------------


@data.command(cls=GroupedCommand, short_help="Check that a data set is what it should be.")
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
    from flatfed.data.acquiring.checks import check as examine
    from flatfed.data.acquiring.findings import WRONG
    from flatfed.experiments.spelling.methods import parse_setting
    from flatfed.experiments.spelling.options import DATA

    # With or without `data.`: here nothing else can be set.
    options = {key.removeprefix(DATA): value for key, value in map(parse_setting, settings)}
    findings = examine(name, data_dir, options)
    failed = any(finding.state == WRONG for finding in findings)
    if as_json:
        report = {"dataset": name, "ok": not failed, "checks": list(map(vars, findings))}
        echo(json.dumps(report, indent=1))
    else:
        _print_findings(findings)
        echo(_conclusion(name, findings))
    return FAILED if failed else 0


def _conclusion(name: str, findings: list[Finding]) -> str:
    from flatfed.data.acquiring.findings import NOTE, WRONG

    states = [finding.state for finding in findings]
    if WRONG in states:
        return f"{name}: {states.count(WRONG)} of {len(states)} checks failed"
    if NOTE in states:
        return f"{name} is in order, except for what is noted"
    return f"{name} is in order"


def _print_findings(findings: list[Finding]) -> None:
    from flatfed.data.acquiring.findings import NOTE, OK, WRONG

    rows = [[finding.what, finding.found, finding.expected, finding.state] for finding in findings]
    print_table(["", "found", "expected", ""], rows, {OK: "green", NOTE: "yellow", WRONG: "red"})


# --- list -----------------------------------------------------------------------------------------------------


@data.command(name="list", cls=GroupedCommand, short_help="List data sets and whether they are in place.")
@_where
@_json
def listing(data_dir: str | None, as_json: bool) -> int:
    """List the data sets and whether their files are in the data directory."""
    from flatfed.data.acquiring.places import INCOMPLETE, MISSING, OWN
    from flatfed.data.catalogue import datasets
    from flatfed.data.directory import DataDirectory

    directory = DataDirectory(data_dir)
    entries = [_entry(id, about, directory) for id, about in datasets().items()]
    if as_json:
        echo(json.dumps({"data_dir": str(directory.path), "datasets": entries}, indent=1))
    else:
        echo(f"data directory: {directory.path}")
        rows = [[entry["id"], entry["state"], entry["about"]] for entry in entries]
        print_table(["", "", ""], rows, {MISSING: "dim", OWN: "dim", INCOMPLETE: "red"})
    # Last, so that warnings are not lost above a long list.
    warn_of_broken_modules()
    return 0


def _lacking(place: Place) -> str:
    """Return what is lacking, with options as they are typed."""
    if place.error is None:
        return place.lacking
    word = word_for(place.error.parameter, {"data_dir": "--data-dir"})
    return place.lacking if word is None else place.error.worded(word)


def _entry(id: str, about: str, directory: DataDirectory) -> dict[str, Any]:
    """Return a data set, and whether it is in place."""
    from flatfed.data.acquiring.places import place
    from flatfed.data.catalogue import find

    placed = place(find(id), directory)
    return {"id": id, "state": placed.state, "about": about, "lacking": _lacking(placed)}
