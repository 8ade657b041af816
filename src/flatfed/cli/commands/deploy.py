"""`flatfed deploy`: make what a federation of organisations needs, and find what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from flatfed.cli.data.tables import print_table
from flatfed.cli.options.groups import GroupedCommand, NearestGroup
from flatfed.cli.output.streams import echo

FAILED = 1
COLOURS = {"ok": "green", "warning": "yellow", "fault": "red"}


@click.group(cls=NearestGroup, short_help="Make and check a federation of organisations.")
def deploy() -> None:
    """Make what a federation of organisations needs, and find what is wrong with it.

    \b
      flatfed deploy init fed --sites hospital-a,hospital-b --host fed.example.org
      flatfed deploy check fed                  everything
      flatfed deploy check fed/sites/hospital-a one site's folder

    Exit codes: 0 done, 1 a fault was found, 2 a mistake in what was asked for.
    """


@deploy.command(cls=GroupedCommand, short_help="Write certificates, keys, scripts and services.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--sites", required=True, metavar="NAME,NAME,...", help="The organisations' names.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME_OR_IP",
    help="How the sites reach the server; may be given several times, the first is written into their scripts.  "
    "[default: this machine alone]",
)
@click.option("--port", type=int, default=8000, show_default=True, help="The server's port for the sites.")
@click.option(
    "--superlink-port",
    type=int,
    default=None,
    help="The SuperLink's own port, on the server's loopback interface.  [default: the next one]",
)
@click.option("--days", type=int, default=365, show_default=True, help="For how long certificates are valid.")
def init(folder: Path, sites: str, hosts: tuple[str, ...], port: int, superlink_port: int | None, days: int) -> None:
    """Write everything that a federation on Flower needs into the new folder DIR.

    There is a folder for the server, one for each site, the app that Flower runs, and the authority's key, to be moved
    offline. Each README says what to type. Nothing is ever written over.
    """
    from flatfed.deploy.deployment import HOSTS, Deployment
    from flatfed.deploy.initialise import initialise

    names = tuple(name.strip() for name in sites.split(",") if name.strip())
    deployment = Deployment(names, hosts or HOSTS, port, superlink_port, days)
    initialise(folder, deployment)
    echo(f"wrote {folder} with a folder for the server and one for each of {', '.join(names)}")
    echo(f"begin with {folder / 'README.md'}")
    echo(f"move {folder / 'authority'} offline: whoever has its key can pretend to be the server")


@deploy.command(cls=GroupedCommand, short_help="Find what is wrong with it.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check(folder: Path, as_json: bool) -> int:
    """Look at the deployment DIR, or at one folder of it: the server's, or a site's, also on the machine of the site.

    It looks at certificates (authority, hosts, dates), keys (modes, pairs, copies), fingerprints, versions, programs,
    room on the disk, and at the server as it is seen from here: port (3 seconds), certificate, clock (at most 5
    seconds ahead, 300 behind), and that the Control API is closed. In a site's folder also at the data.
    """
    from flatfed.deploy.doctor.examination import examine

    found = examine(folder)
    faults = sum(diagnosis.level == "fault" for diagnosis in found)
    if as_json:
        echo(json.dumps([dataclasses.asdict(diagnosis) for diagnosis in found], indent=1))
    else:
        rows = [[diagnosis.level, diagnosis.subject, diagnosis.text, diagnosis.fix] for diagnosis in found]
        print_table(["", "what", "found", "fix"], rows, COLOURS)
        warnings = sum(diagnosis.level == "warning" for diagnosis in found)
        echo(f"{_counted(faults, 'fault')}, {_counted(warnings, 'warning')}")
    return FAILED if faults else 0


def _counted(number: int, word: str) -> str:
    """Return a number with its word: 1 fault, 2 faults, no faults."""
    if number == 0:
        return f"no {word}s"
    if number == 1:
        return f"1 {word}"
    return f"{number} {word}s"
