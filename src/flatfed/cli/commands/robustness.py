"""`flatfed robustness`: how the models of runs do on corrupted images."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_data_option,
    declared_option,
    json_option,
    option,
    trust_option,
    workers_option,
)
from flatfed.cli.options.values import within_option
from flatfed.cli.output.files import refuse_other_pictures, refuse_unwritable, written_for
from flatfed.cli.output.progress import StepProgress, interruptible
from flatfed.cli.output.results import print_tables, table_width, text_width
from flatfed.cli.output.streams import echo
from flatfed.experiments.spelling.measured import ROBUSTNESS, severities_of

if TYPE_CHECKING:
    from flatfed.reports.robustness.methods import MeasuredRun, MethodRobustness

Methods = Sequence["MethodRobustness"]


@click.command(cls=GroupedCommand, short_help="Test the models of runs on corrupted images.")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@option(
    "--data-dir",
    "Where data sets and published corruptions (CIFAR-10-C, CIFAR-100-C) lie.  [default: as the run]",
)
@declared_option("--severity", "How strong the corruptions are.", ROBUSTNESS["severity"])
@declared_option(
    "--corruptions", "Some corruptions only.  [default: all 19]", ROBUSTNESS["corruptions"], metavar="NAME,..."
)
@option("--figure", "Also draw the result (.png and its .pdf, .svg or .pdf).", click.Path(path_type=Path))
@option("--csv table_file", "Also write the results of all runs here.", click.Path(path_type=Path))
@workers_option
@trust_option
@accept_data_option
@json_option
def robustness(
    paths: tuple[Path, ...], figure: Path | None, table_file: Path | None, as_json: bool, **options: Any
) -> int:
    """Test the evaluated model of each RUN, a run directory or a comparison, on corrupted test images.

    The 19 corruptions of CIFAR-10-C in five severities: the published files where they lie in the data directory, else
    images made here in the same way, for any image data. Writes robustness.json, robustness.csv and robustness.png into
    each run directory; what is there already is not measured again. Several runs give one table and one figure; seeds
    of one method are averaged.
    """
    # Refused now, because measuring takes long.
    refuse_other_pictures(figure)
    for option_name, file in (("--figure", figure), ("--csv", table_file)):
        if file is not None:
            refuse_unwritable(option_name, file, file.parent)
    methods = _measure(paths, options)
    alone = len(_runs(methods)) == 1
    _report(methods, alone, as_json)
    _tell_skipped(methods)
    _tell_unfinished(methods, alone)
    if figure is not None:
        _write("--figure", figure, lambda: _draw(methods, figure))
    if table_file is not None:
        _write("--csv", table_file, lambda: _save(methods, table_file))
    echo(f"results in {_places(methods, alone)}", err=True)
    return 0


def _measure(paths: tuple[Path, ...], options: dict[str, Any]) -> list[MethodRobustness]:
    from flatfed.experiments.measuring.corruption_request import corruptions_named
    from flatfed.experiments.measuring.robustness import robustness_of_methods, runs_of

    with within_option("--corruptions"):
        names = corruptions_named(options["corruptions"])
    runs = runs_of(paths, trust=options["trust"], accept_changed_data=options["accept_changed_data"])
    with (
        StepProgress("corruptions") as progress,
        interruptible("interrupted; the results so far are kept, and the same command goes on"),
    ):
        return robustness_of_methods(
            runs,
            severities=severities_of(options["severity"]),
            names=names,
            data_dir=options["data_dir"],
            workers=options["workers"],
            trust=options["trust"],
            accept_changed_data=options["accept_changed_data"],
            on_corruption=progress.show,
            say=progress.say,
        )


def _runs(methods: Methods) -> list[MeasuredRun]:
    return [run for method in methods for run in method.runs]


def _report(methods: Methods, alone: bool, as_json: bool) -> None:
    """Print the results: a run's table, one table of several, or JSON."""
    if as_json:
        echo(json.dumps(_entries(methods, alone), indent=1))
    elif alone:
        _print_one(methods[0].runs[0])
    else:
        _print_several(methods)


def _entries(methods: Methods, alone: bool) -> Any:
    """Return the results for JSON: an object for one run, else a list with the path of each."""
    runs = _runs(methods)
    if alone:
        return runs[0].robustness.to_dict()
    return [run.to_dict() for run in runs]


def _print_one(run: MeasuredRun) -> None:
    from flatfed.reports.robustness.one_run import headline, table

    if run.robustness.cells:
        print_tables([table(run.robustness)], text_width())
    echo(headline(run.robustness))


def _print_several(methods: Methods) -> None:
    from flatfed.reports.robustness.methods import caption, severities, tables

    if not severities(methods):
        echo("no corruption could be measured")
        return
    width = table_width()
    print_tables(tables(methods, width), width)
    echo(textwrap.fill(caption(methods), text_width()))


def _tell_skipped(methods: Methods) -> None:
    """Say which corruptions were left out and why."""
    from flatfed.reports.robustness.methods import left_out

    for remark in left_out(methods):
        echo(remark, err=True)


def _tell_unfinished(methods: Methods, alone: bool) -> None:
    """Say which runs did not finish, and whether they count in their method's mean."""
    for method in methods:
        for run in filter(attrgetter("remark"), method.runs):
            echo(_remark(run, method, alone), err=True)


def _remark(run: MeasuredRun, method: MethodRobustness, alone: bool) -> str:
    if alone:
        return run.remark
    counts = id(run.robustness) in map(id, method.counted)  # two seeds may have equal results
    if counts:
        return f"{run.path}: {run.remark}"
    return f"{run.path}: {run.remark}; it is not in the mean"


def _places(methods: Methods, alone: bool) -> str:
    """Return where the results lie, and in which files."""
    folder = _runs(methods)[0].path
    # Which files there are depends on the libraries that are installed.
    files = sorted(map(attrgetter("name"), folder.glob("robustness.*")))
    place = folder if alone else "each run directory"
    return f"{place}: {', '.join(files)}"


def _write(option: str, file: Path, write: Callable[[], None]) -> None:
    """Write a file that was asked for; where that fails say which option it was."""
    with written_for(option, file), within_option(f"{option} {file}"):
        write()
    echo(f"{option.removeprefix('--')}: {file}", err=True)


def _draw(methods: Methods, figure: Path) -> None:
    from flatfed.reports.figures.drawing.writing import named_files
    from flatfed.reports.robustness.methods import draw_runs

    draw_runs(methods, named_files(figure))


def _save(methods: Methods, file: Path) -> None:
    from flatfed.reports.robustness.methods import as_csv

    file.write_text(as_csv(methods), encoding="utf-8")
