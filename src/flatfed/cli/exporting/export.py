"""`flatfed export`: a run's model for use elsewhere, with a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from flatfed.cli.output.streams import echo

FORMATS = ("safetensors", "torch", "onnx", "hf")
TYPES = ("float64", "float32", "float16", "bfloat16")
FOLDER = "export"
"""Where a model goes that is given no place, within its run directory."""


@click.command(cls=GroupedCommand, short_help="Write a run's model for use elsewhere, with a model card.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@option(
    "--format",
    "safetensors and torch: parameters and buffers under PyTorch's state_dict names. onnx: a graph, compared with the "
    "model by onnxruntime to 1e-5. hf: a folder for from_pretrained, of Hugging Face models.  [default: as the ending "
    "of --out says, else safetensors]",
    click.Choice(FORMATS),
)
@option(
    "--out",
    "A folder, or a file that ends in .safetensors, .pt or .onnx; the card lies in it or beside it.  [default: the "
    "folder export of RUN]",
    click.Path(path_type=Path),
    group="output",
)
@which_model_option
@weights_option
@option(
    "--client",
    "With the layers and statistics that this client keeps; needed where a part of the model stays on the clients.",
    Whole(0),
    group="model",
)
@option("--dtype", "Type of the numbers.  [default: as trained]", click.Choice(TYPES), group="model")
@option(
    "--raw-inputs",
    "onnx: the graph takes the data set's raw values, such as bytes of pixels, and prepares them itself.",
    is_flag=True,
    group="model",
)
@data_dir_option
@accept_data_option
@trust_option
def export(
    path: Path,
    format: str | None,
    out: Path | None,
    model: str,
    weights: str,
    client: int | None,
    dtype: str | None,
    raw_inputs: bool,
    **opening: Any,
) -> int:
    """Write the model of RUN for use elsewhere, with a model card in Markdown.

    It is the model that was evaluated: with weight averaging (SWA, WIMA) the average, and buffers such as BatchNorm's
    statistics are in it. The card is made from the run's record, its history and the measurements that were kept, and
    says what was not measured.
    """
    from flatfed.experiments.running.run import load_run

    place = path / FOLDER if out is None else out
    if out is not None:  # what is wrong with RUN is said of RUN
        refuse_unwritable("--out", place, place.parent)
    with waiting(f"opening {path} and loading its data"):
        run = load_run(path, say=_tell, best=model == "best", **opening)
    with written_for("--out", place):
        options = {"weights": weights, "client": client, "dtype": dtype, "raw_inputs": raw_inputs}
        files = run.export(place, format, say=_tell, **options)
    for file in files:
        echo(str(file))
    return 0


def _tell(text: str) -> None:
    echo(text, err=True)
