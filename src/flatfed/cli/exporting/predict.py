"""`flatfed predict`: what a run's model says of new images, texts and rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flatfed.cli.options.groups import (
    GroupedCommand,
    accept_data_option,
    data_dir_option,
    option,
    trust_option,
    weights_option,
    which_model_option,
)
from flatfed.cli.options.values import Whole
from flatfed.cli.output.files import refuse_unwritable, written_for
from flatfed.cli.output.progress import waiting
from flatfed.cli.output.streams import console, echo
from flatfed.core.errors import ConfigError

if TYPE_CHECKING:
    from flatfed.core.task.task import Task
    from flatfed.experiments.predicting.predictions import Prediction
    from flatfed.experiments.running.inference_model import Weights

PLACE = click.Path(path_type=Path)


@click.command(cls=GroupedCommand, short_help="What a run's model says of new images, texts or rows.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--top", "Also show the next most probable classes, n in all.", Whole(1), 1)
@option("--resize", "Bring images of another size to that of the data set: the middle square.", is_flag=True)
@option("--whole", "Texts: each file is one text.  [default: each line is]", is_flag=True)
@option("--column", "Texts: the column of a CSV file that holds them.  [default: as in the run's data]", str)
@which_model_option
@weights_option
@option("--client", "With the layers and statistics that this client keeps.", Whole(0), group="model")
@option("--json as_json", "Print as JSON, with the probability of every class.", is_flag=True, group="output")
@option("--csv", "Also write a CSV file, with the probability of every class.", PLACE, group="output")
@data_dir_option
@accept_data_option
@trust_option
def predict(
    path: Path,
    files: tuple[Path, ...],
    top: int,
    resize: bool,
    whole: bool,
    column: str | None,
    model: str,
    weights: Weights,
    client: int | None,
    as_json: bool,
    csv: Path | None,
    **opening: Any,
) -> int:
    """Say which class the model of RUN gives to each image, text or row in FILE...

    Files are read as the run's own data were: images by the data set's size and normalisation (a folder stands for the
    images in it), texts by its vocabulary (each line of a file, or each row of a CSV file), rows of a CSV file by the
    table's columns and scaling. NumPy files (.npy) hold raw inputs of any task.
    """
    from flatfed.experiments.predicting.prediction_files import as_csv
    from flatfed.experiments.predicting.prediction_files import as_json as json_of
    from flatfed.experiments.running.run import load_run
    from flatfed.runs.records.files import replace_file

    if csv is not None:
        if any(file.resolve() == csv.resolve() for file in files):
            raise ConfigError(f"--csv {csv}: this file is read, and would be lost; name another place")
        refuse_unwritable("--csv", csv, csv.parent)
    with waiting(f"opening {path} and loading its data"):
        run = load_run(path, say=_tell, best=model == "best", **opening)
    how = {"resize": resize, "whole": whole, "column": column or ""}
    predictions = run.predict(*files, weights=weights, client=client, say=_tell, **how)
    if csv is not None:
        with written_for("--csv", csv):
            replace_file(csv, as_csv(run.task, predictions).encode())
    if as_json:
        echo(json.dumps(json_of(run.task, predictions), indent=1, allow_nan=False))
    else:
        _print(run.task, predictions, top)
    return 0


def _print(task: Task, predictions: list[Prediction], top: int) -> None:
    from flatfed.reports.tables.grid import Sheet, SheetCell

    if predictions[0].number is None:
        values = [[one.name, ", ".join(f"{value:g}" for value in one.outputs)] for one in predictions]
        heads = ["input", "output"]
    else:
        count = min(top, len(predictions[0].outputs))
        heads = ["input", *(["class", "%"] * count)]
        values = [_ranked(task, one, count) for one in predictions]
    rows = [[SheetCell(text, text) for text in row] for row in values]
    console(soft_wrap=True).print(Sheet(heads, rows, words=len(heads)).terminal())


def _ranked(task: Task, one: Prediction, count: int) -> list[str]:
    """Return the cells of a row: the input, then classes and their probabilities."""
    cells = [one.name]
    for number in one.ranked()[:count]:
        cells += [task.class_name(number), f"{100 * one.outputs[number]:.1f}"]
    return cells


def _tell(text: str) -> None:
    echo(text, err=True)
