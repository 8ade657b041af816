"""`flatfed robustness`: how the models of runs do on corrupted images."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flatfed.cli.options.given import named_as_typed
from flatfed.cli.options.values import Whole
from flatfed.cli.output.progress import Steps
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.reports.robustness.methods import MeasuredRun, MethodRobustness
    from flatfed.reports.robustness.one_run import Robustness

WIDE, UNBOUNDED = 160, 10_000


@click.command(short_help="Test the models of runs on corrupted images.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
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
@click.option(
    "--csv",
    "table_file",
    type=click.Path(path_type=Path),
    default=None,
    help="Also write the results of all runs here.",
)
@click.option("--workers", type=Whole(0, "auto"), default=None, help="Worker processes.  [default: as the run]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead of a table.")
def robustness(
    paths: tuple[Path, ...],
    data_dir: str | None,
    severity: str,
    corruptions: str | None,
    figure: Path | None,
    table_file: Path | None,
    workers: int | str | None,
    as_json: bool,
) -> int:
    """Test the evaluated model of each RUN, a run directory or a comparison, on corrupted test images.

    The 19 corruptions of CIFAR-10-C in five severities: the published files where they lie in the data directory, else
    images made here in the same way, for any image data. Writes robustness.json, robustness.csv and robustness.png into
    each run directory; what is there already is not measured again. Several runs give one table and one figure; seeds
    of one method are averaged.
    """
    from flatfed.experiments.measuring.robustness import robustness_of_methods, runs_of

    if figure is not None and figure.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"--figure {figure}: the name must end in .png or .svg")
    names = [name.strip().replace("-", "_") for name in corruptions.split(",")] if corruptions is not None else None
    runs = runs_of(paths)
    with Steps("corruptions") as progress, named_as_typed("unknown corruption", "--corruptions: unknown corruption"):
        try:
            methods = robustness_of_methods(
                runs,
                severities=range(1, 6) if severity == "all" else [int(severity)],
                names=names,
                data_dir=data_dir,
                workers=workers,
                on_corruption=progress.show,
                say=progress.say,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("interrupted; the results so far are kept, and the same command goes on") from None
    if len(runs) == 1:
        _report_one(methods[0].runs[0], as_json)
    else:
        _report_several(methods, as_json)
    measured = [run for method in methods for run in method.runs]
    _tell(methods, alone=len(runs) == 1)
    if figure is not None:
        _write("--figure", figure, lambda: _draw(methods, figure, alone=len(runs) == 1))
    if table_file is not None:
        _write("--csv", table_file, lambda: _save(methods, table_file))
    files = ", ".join(sorted(file.name for file in measured[0].path.glob("robustness.*")))
    click.echo(f"results in {measured[0].path if len(runs) == 1 else 'each run directory'}: {files}", err=True)
    return 0


def _report_one(run: MeasuredRun, as_json: bool) -> None:
    from flatfed.reports.robustness.one_run import headline, table

    found = run.found
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1))
    elif found.cells:
        from rich.console import Console

        Console(width=_width(), highlight=False).print(table(found))
    if not as_json:
        click.echo(headline(found))


def _report_several(methods: Sequence[MethodRobustness], as_json: bool) -> None:
    from flatfed.reports.robustness.methods import caption, severities, tables

    if as_json:
        click.echo(json.dumps([run.to_dict() for method in methods for run in method.runs], indent=1))
        return
    if not severities(methods):
        click.echo("no corruption could be measured")
        return
    from rich.console import Console

    across = _width() if sys.stdout.isatty() else UNBOUNDED  # off a terminal nothing need fit
    for table in tables(methods, across):
        Console(width=across, highlight=False).print(table)
    click.echo(textwrap.fill(caption(methods), _width()))


def _width() -> int:
    return max(shutil.get_terminal_size().columns, 80) if sys.stdout.isatty() else WIDE


def _tell(methods: Sequence[MethodRobustness], alone: bool) -> None:
    """Say which corruptions were left out and why, and which runs did not finish."""
    runs = [(run, method.counted) for method in methods for run in method.runs]
    skipped = {name: reason for run, _ in runs for name, reason in run.found.skipped.items()}
    for reason in dict.fromkeys(skipped.values()):
        names = ", ".join(name for name, why in skipped.items() if why == reason)
        click.echo(f"left out: {names}: {reason}", err=True)
    for run, counted in runs:
        if run.remark:
            apart = "" if any(run.found is one for one in counted) else "; it is not in the mean"
            click.echo(run.remark if alone else f"{run.path}: {run.remark}{apart}", err=True)


def _write(option: str, file: Path, write: Callable[[], None]) -> None:
    """Write a file that was asked for; where that fails say which option it was."""
    try:
        write()
    except (OSError, ConfigError) as error:
        raise ConfigError(f"{option} {file}: {getattr(error, 'strerror', None) or error}") from None
    click.echo(f"{option.removeprefix('--')}: {file}", err=True)


def _draw(methods: Sequence[MethodRobustness], figure: Path, alone: bool) -> None:
    from flatfed.reports.robustness.methods import draw as draw_several
    from flatfed.reports.robustness.one_run import draw

    found: Robustness = methods[0].runs[0].found
    if not alone:
        draw_several(methods, [figure])
    elif not found.cells:
        raise ConfigError("there is nothing to draw")
    else:
        draw(found, figure)


def _save(methods: Sequence[MethodRobustness], file: Path) -> None:
    from flatfed.reports.robustness.methods import as_csv

    file.write_text(as_csv(methods), encoding="utf-8")
