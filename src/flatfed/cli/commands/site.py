"""`flatfed site`: the process that holds an organisation's data in a federation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.making.training import typed_once
from flatfed.cli.options.groups import GroupedCommand, NearestGroup, json_option, option
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.site.check import SiteFinding
    from flatfed.site.config import Site

FAILED = 1
DATA = "data."
MARKS = {"ok": "ok", "warning": "WARNING", "fault": "FAULT"}


class _SiteGroup(NearestGroup):
    """Takes options without a command for those of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `flatfed site --data ...` for `flatfed site run --data ...`."""
        own = {name for param in self.get_params(ctx) for name in param.opts}
        if args and args[0].startswith("-") and args[0] not in own:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_SiteGroup, short_help="Take part in a federation with data of your own.")
def site() -> None:
    """Take part in a federation: this organisation's data stay here, and only messages of the method leave.

    \b
      flatfed site check --config site.yaml     what would be trained on; nothing leaves
      flatfed site run --config site.yaml       listen and work until it is ended (run may be left out)
      flatfed site health --config site.yaml    is it well, and what does it do?
      flatfed site forget RUN CLIENT            let a client begin anew whose state is lost

    `flatfed deploy init` writes site.yaml with all that it can hold. Exit codes: 0 done, 1 a fault was found or nobody
    answers, 2 a mistake in what was asked for.
    """


def _site_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what all commands take."""
    decorators = [
        option("--config", "The site's file.", click.Path(path_type=Path), Path("site.yaml")),
        option("--name", "The site's name, in place of the file's.", str),
        option("--data", "Data set, in place of the file's: flatfed data list, or module:function.", str),
        option("--set settings", "An option of the data: data.path=patients.csv.", multiple=True, metavar="NAME=VALUE"),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def _data_options(settings: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the data with those that are typed."""
    changed = dict(options)
    for name, value in typed_once(settings).items():
        if not name.startswith(DATA):
            raise ConfigError(f"--set {name}: only options of the data can be set here, such as data.path=...")
        changed[name.removeprefix(DATA)] = value
    return changed


def _read(config: Path, name: str | None, data: str | None, settings: tuple[str, ...]) -> Site:
    from flatfed.site.config import read_site

    # With a name and data of its own, a site needs no file.
    typed: dict[str, Any] = {"site": name, "data": data}
    options = dict(read_site(config, **typed).data_options) if data is None else {}
    return read_site(config, **typed, data_options=_data_options(settings, options))


@site.command(cls=GroupedCommand, short_help="Listen and work until it is ended.")
@_site_options
def run(config: Path, name: str | None, data: str | None, settings: tuple[str, ...]) -> None:
    """Load the data, then answer what the federation's server asks, within the limits of the site's file.

    The process ends on SIGINT or SIGTERM; work that was under way is given up, and nothing of it counts. States of
    clients, delivered models and the audit log lie in the folder that the file names.
    """
    from flatfed.site.data import load_data
    from flatfed.site.listening import SiteProcess

    own = _read(config, name, data, settings)
    SiteProcess(own, load_data(own), echo).run()


@site.command(cls=GroupedCommand, short_help="Show what would be trained on; nothing leaves.")
@_site_options
@json_option
def check(config: Path, name: str | None, data: str | None, settings: tuple[str, ...], as_json: bool) -> int:
    """Look at the site's file, data, folder and limits, and show what a run would be trained on. Nothing leaves."""
    from flatfed.site.check import check_site

    # Not `_read`: a file that is wrong is a finding too.
    findings = check_site(config, lambda: _read(config, name, data, settings))
    if as_json:
        echo(json.dumps([finding.__dict__ for finding in findings], indent=1))
    else:
        _print(findings)
    return FAILED if any(finding.state == "fault" for finding in findings) else 0


def _print(findings: list[SiteFinding]) -> None:
    for finding in findings:
        echo(f"{MARKS[finding.state]:8} {finding.what}: {finding.text}")


@site.command(cls=GroupedCommand, short_help="Ask a running site whether it is well.")
@_site_options
@json_option
def health(config: Path, name: str | None, data: str | None, settings: tuple[str, ...], as_json: bool) -> int:
    """Ask the site's process whether it is well, and what it does; a site that trains answers too."""
    from flatfed.site.health import ask_health

    facts = ask_health(_read(config, name, data, settings))
    if as_json:
        echo(json.dumps(facts))
    else:
        echo(", ".join(f"{name} {value}" for name, value in facts.items()))
    return 0


@site.command(cls=GroupedCommand, short_help="Let a client begin anew whose state is lost.")
@click.argument("run")
@click.argument("client", type=click.IntRange(min=0))
@_site_options
def forget(run: str, client: int, config: Path, name: str | None, data: str | None, settings: tuple[str, ...]) -> None:
    """Let CLIENT of RUN begin anew: with the next request its state is that of a client that never took part.

    For a client whose state is lost: it would stay out for the rest of the run. RUN and CLIENT are named in the
    message that says so, here and at the server. What the server has summed up of the client before stays in its sums,
    so the run is no longer the one that it would have been. The audit log takes note of it.
    """
    from flatfed.site.audit import AuditLog
    from flatfed.site.run_work import states_of

    own = _read(config, name, data, settings)
    states_of(own, run).begin_anew(client)
    AuditLog(own.folder).note("forget", run=run, client=client)
    echo(f"client {client} of {run} begins anew with the next request")
