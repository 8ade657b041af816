"""`flatfed deploy`: make what a federation of organisations needs, and find what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import click

from flatfed.cli.options.groups import GroupedCommand
from flatfed.cli.output.printing import echo
from flatfed.core.errors import nearest


class _DeployGroup(click.Group):
    """Suggests the nearest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the nearest ones."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(nearest(args[0], self.commands, "command"), ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_DeployGroup, short_help="Make and check a federation of organisations.")
def deploy() -> None:
    """Make what a federation of organisations needs, and find what is wrong with it.

    \b
      flatfed deploy init fed --sites hospital-a,hospital-b --host fed.example.org
      flatfed deploy check fed                  everything
      flatfed deploy check fed/sites/hospital-a one site's folder, also at the site

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
    echo(f"wrote {folder}: the server's folder, the app, and {len(names)} sites; begin with {folder / 'README.md'}")
    echo(f"move {folder / 'authority'} offline: whoever has its key can pretend to be the server")
