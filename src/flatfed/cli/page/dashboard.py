"""`flatfed dashboard`: the runs below a folder in a browser, while they go on."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from flatfed.cli.options.groups import GroupedCommand, option
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError

PORT = 7878


@click.command(cls=GroupedCommand, short_help="Follow runs, comparisons and studies in a browser.")
@click.argument("folder", default=".", metavar="[FOLDER]", type=click.Path(path_type=Path))
@option("--host", "The address to answer on; any but this machine's own demands a token.", str, "127.0.0.1")
@option("--port", "The port; 0 for any that is free.", click.IntRange(0, 65535), PORT)
@option("--token-file", "A file with the token to demand, instead of a new one.", click.Path(path_type=Path))
@option("--open/--no-open opens", "Open it in the browser of this machine.", is_flag=True, default=False)
def dashboard(folder: Path, host: str, port: int, token_file: Path | None, opens: bool) -> int:
    """Show the runs, comparisons and studies below FOLDER in a browser while they go on, until Ctrl-C.

    It only reads, and answers on this machine alone unless --host says otherwise. Code that a run names is not
    imported.
    """
    from flatfed.dashboard.serving.serve import address_of, bound_socket, require_dashboard, serve, token_for

    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; name one that holds runs, or will")
    require_dashboard()
    token = token_for(host, token_file)
    with bound_socket(host, port) as bound:
        address = address_of(bound, host, token)
        echo(f"the dashboard of {folder}: {address}")
        if opens:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):  # which is how it ends
            serve(folder, host, bound, token, _write_report)
    return 0


def _write_report(path: Path, file: Path) -> None:
    from flatfed.cli.page.pages import write_page_of
    from flatfed.reports.tables.columns import PLAIN

    write_page_of([path], file, PLAIN)
