"""`flatfed bundle`: a run in one file."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from flatfed.cli.options.groups import GroupedCommand, data_dir_option, option, trust_option
from flatfed.cli.output.files import written_for
from flatfed.cli.output.progress import waiting
from flatfed.cli.output.streams import echo


@click.command(cls=GroupedCommand, short_help="Pack a run into one file that anybody can verify.")
@click.argument("path", metavar="RUN", type=click.Path(path_type=Path))
@option("--out", "The file to make.  [default: RUN.bundle.zip]", click.Path(path_type=Path), group="output")
@option(
    "--with-data",
    "Also pack the examples of a run that was made from tensors. Only where others may have them.",
    is_flag=True,
    group="data",
)
@data_dir_option
@trust_option
def bundle(path: Path, out: Path | None, with_data: bool, data_dir: str | None, trust: bool) -> int:
    """Pack what a stranger needs of RUN into one file: record, versions, history, checkpoints, measurements, model.

    The recipe of the data is in it, with fingerprints of the examples, but not the examples; flatfed verify replays it
    where the same data are. Paths of this machine that the record names are in it too. Each file has its SHA-256 in the
    manifest. --keep-checkpoints while training gives verify more places to begin at.
    """
    from flatfed.experiments.bundling.bundle_run import bundle as packed

    with written_for("--out", out or path), waiting(f"packing {path}"):
        file = packed(path, out, with_data=with_data, trust=trust, data_dir=data_dir, say=_tell)
    echo(str(file))
    echo(f"verify it with: flatfed verify {shlex.quote(str(file))}", err=True)
    return 0


def _tell(text: str) -> None:
    echo(text, err=True)
