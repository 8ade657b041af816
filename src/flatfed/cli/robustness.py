"""`flatfed robustness`: how a run's model does on corrupted images."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options import Whole, named_as_typed
from flatfed.cli.progress import Steps
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.reports.robustness import Robustness

WIDE = 160


@click.command(short_help="Test a run's model on corrupted images.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--data-dir",
    default=None,
    help="Where data sets and published corruptions (CIFAR-10-C, CIFAR-100-C) lie.  [default: as the run]",
)
@click.option(
    "--severity",
    type=click.Choice(["1", "2", "3", "4", "5", "all"]),
    default="5",
    show_default=True,
    help="How strong the corruptions are.",
)
@click.option("--corruptions", default=None, metavar="NAME,...", help="Some corruptions only.  [default: all 19]")
@click.option("--figure", type=click.Path(path_type=Path), default=None, help="Also draw the result (.png or .svg).")
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as the run]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
def robustness(
    path: Path,
    data_dir: str | None,
    severity: str,
    corruptions: str | None,
    figure: Path | None,
    workers: int | str | None,
    as_json: bool,
) -> int:
    """Test the evaluated model of RUN on corrupted test images.

    The 19 corruptions of CIFAR-10-C in five severities: the published files where they lie in the data directory, else
    images made here in the same way, for any image data. Writes robustness.json, robustness.csv and robustness.png into
    the run directory; what is there already is not measured again.
    """
    from flatfed.experiments.loading import open_run
    from flatfed.experiments.robustness import robustness as measure

    if figure is not None and figure.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"--figure {figure}: the name must end in .png or .svg")
    names = [name.strip().replace("-", "_") for name in corruptions.split(",")] if corruptions is not None else None
    directory = open_run(path)
    with Steps("corruptions") as progress, named_as_typed("unknown corruption", "--corruptions: unknown corruption"):
        found = measure(
            path,
            severities=range(1, 6) if severity == "all" else [int(severity)],
            names=names,
            data_dir=data_dir,
            workers=workers,
            on_corruption=progress.show,
            say=progress.say,
        )
    _report(found, as_json)
    _remark(directory.status()["status"], found.round, directory.config["settings"]["rounds"])
    if figure is not None:
        _draw(found, figure)
    files = ", ".join(sorted(file.name for file in path.glob("robustness.*")))
    click.echo(f"results in {path}: {files}", err=True)
    return 0


def _report(found: Robustness, as_json: bool) -> None:
    from flatfed.reports.robustness import headline, table

    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    elif found.cells:
        from rich.console import Console

        width = max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE
        Console(width=width, highlight=False).print(table(found))
    if not as_json:
        click.echo(headline(found))
    for reason in dict.fromkeys(found.skipped.values()):
        names = ", ".join(name for name, why in found.skipped.items() if why == reason)
        click.echo(f"left out: {names}: {reason}", err=True)


def _remark(status: str, round: int, rounds: int) -> None:
    if status != "finished":
        click.echo(f"this run is {status}; measured is its last checkpoint, round {round} of {rounds}", err=True)


def _draw(found: Robustness, figure: Path) -> None:
    from flatfed.reports.robustness import draw

    if not found.cells:
        raise ConfigError(f"--figure {figure}: there is nothing to draw")
    try:
        draw(found, figure)
    except OSError as error:
        raise ConfigError(f"--figure {figure}: {error.strerror}") from None
    click.echo(f"figure: {figure}", err=True)
