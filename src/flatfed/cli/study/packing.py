"""`flatfed study pack` and `unpack`: compact results of a study, and a study's folder made from them."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from flatfed.cli.options.groups import GroupedCommand
from flatfed.cli.output.streams import echo


@click.command(cls=GroupedCommand)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
def pack(folder: Path, destination: Path) -> int:
    """Write what came of each ended cell of the study in FOLDER into DEST: a small JSON file for each.

    It holds settings, versions, how the run ended, the evaluated rounds with exact numbers, and what was measured; no
    checkpoint, and no path of this machine. The study may still run: packing again adds what is new.
    """
    from flatfed.studies.entering import recorded_study
    from flatfed.studies.folder import StudyFolder
    from flatfed.studies.packing.pack import pack_study
    from flatfed.studies.run_study import RunningStudy

    packed = pack_study(RunningStudy(recorded_study(StudyFolder(folder)), folder), destination)
    counts = {"new": len(packed.new), "renewed": len(packed.renewed), "unchanged": packed.unchanged}
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    echo(f"{words}; {packed.left} cells have not ended; {packed.size / 1000:,.0f} kB in {destination}")
    return 0


@click.command(cls=GroupedCommand)
@click.argument("source", metavar="DEST", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
def unpack(source: Path, folder: Path) -> int:
    """Make a new study's FOLDER from the compact results in DEST: to be shown, judged and reported.

    Its runs have no checkpoints. The study can go on in FOLDER (`study run FILE --out FOLDER`): cells that have ended
    are not trained again, and `study pack FOLDER DEST` adds the new ones. To train a cell again, run the study's file
    with another folder.
    """
    from flatfed.studies.packing.unpack import REMARK, unpack_study

    count = unpack_study(source, folder)
    echo(f"{count} cells, {REMARK}; show them with: flatfed study show {shlex.quote(str(folder))}")
    return 0


def tell_unpacked(folder: Path) -> None:
    """Tell on standard error where a study's folder was unpacked."""
    from flatfed.studies.folder import StudyFolder
    from flatfed.studies.packing.unpack import REMARK, UNPACKED

    if StudyFolder(folder).record().get(UNPACKED):
        echo(f"{folder} was {REMARK}", err=True)
