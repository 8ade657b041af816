"""`flatfed report`: runs, comparisons and studies as one page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from flatfed.cli.options.groups import GroupedCommand, make_extras, option, report_options
from flatfed.cli.output.files import written_for
from flatfed.cli.output.streams import echo
from flatfed.core.errors import ConfigError


@click.command(cls=GroupedCommand, short_help="Write one page with tables, curves, flatness and clients.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@option("--out", "The page to write.", click.Path(path_type=Path), "report.html")
@report_options
def report(paths: tuple[Path, ...], out: Path, **options: Any) -> int:
    """Write one HTML file about PATH...: runs, comparisons, folders of studies, also while they run.

    The page holds all it needs: it works from a disk, asks the network for nothing, and can be printed. Code that a run
    names is not imported for it; flatness and landscapes are shown where they were measured before.
    """
    from flatfed.cli.page.pages import write_page_of

    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out {out}: the name must end in .html")
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: {out.parent} is not a folder; make it first, or name another one")
    with written_for("--out", out):
        write_page_of(paths, out, make_extras(options))
    echo(f"written: {out}", err=True)
    return 0
