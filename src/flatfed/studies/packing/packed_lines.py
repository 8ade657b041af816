"""The loss on lines between models, as a study's figures show it: what becomes of it in a packed study.

::

    lines/FIGURE-SETTING-seed-0.json    the lines of a picture, with the barriers on them

A line belongs to two runs at once, so it is no part of a cell. Other figures are left out: they can be drawn from what
cells keep, or are large.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Line
from flatfed.runs.packed import is_packed
from flatfed.runs.records.files import FORMAT, read_json
from flatfed.studies.drawing.draw_figures import drawn_record
from flatfed.studies.drawing.figure import Figure
from flatfed.studies.drawing.picture_plan import Picture, plan_pictures
from flatfed.studies.run_study import RunningStudy

FOLDER = "lines"
OF_RECORD = ("name", "figure", "setting", "seed")


@dataclass(frozen=True)
class LinesOfSeed:
    """The lines of one picture.

    Attributes:
        name: of the picture.
        figure: of the study, that it is a picture of.
        setting: of the study.
        seed: of the runs whose models lie on the lines.
        lines: as they are drawn.
    """

    name: str
    figure: str
    setting: str
    seed: int
    lines: Sequence[Line]


def line_pictures(running: RunningStudy) -> list[tuple[str, Picture]]:
    """Return the pictures that show the loss between two models, drawn or not, each with the name of its figure."""
    return [
        (name, picture)
        for picture in plan_pictures(running).pictures
        for name, figure in running.study.report.figures.items()
        if figure is picture.figure and _is_line(figure)
    ]


def _is_line(figure: Figure) -> bool:
    return figure.draw == "landscape" and figure.values["kind"] == "line"


def packed_lines(running: RunningStudy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the record of each picture of a line, with its name; what is not drawn as it is now is left out."""
    for figure, picture in line_pictures(running):
        data = drawn_record(running, picture).get("data")
        lines = data.get("lines") if isinstance(data, Mapping) else None
        if not lines:
            continue
        record = {"figure": figure, "setting": picture.setting, "seed": picture.cells[0].seed, "lines": lines}
        yield picture.name, {"format": FORMAT, "name": picture.name, **record}


def outdated_lines(running: RunningStudy, destination: Path, packed: Collection[str]) -> list[Path]:
    """Return the files of lines that are of other models by now; those of runs that were unpacked stand as they are."""
    unpacked = [
        picture.name
        for _, picture in line_pictures(running)
        if all(is_packed(running.folder.run_of(cell)) for cell in picture.cells)
    ]
    return [file for file in (destination / FOLDER).glob("*.json") if file.stem not in {*packed, *unpacked}]


def read_lines(source: Path) -> list[LinesOfSeed]:
    """Return the lines of a packed study, setting by setting and seed by seed."""
    records = [read_json(file) for file in sorted((source / FOLDER).glob("*.json"))]
    read = [
        LinesOfSeed(**{name: record[name] for name in OF_RECORD}, lines=[_line(line) for line in record["lines"]])
        for record in records
    ]
    return sorted(read, key=lambda one: (one.setting, one.figure, one.seed))


def _line(content: Mapping[str, Any]) -> Line:
    losses = {name: np.array(values, dtype=float) for name, values in content["losses"].items()}
    # A file has no word for what is not finite but nothing.
    barriers = {name: math.nan if value is None else float(value) for name, value in content["barriers"].items()}
    return Line(**{**content, "xs": np.array(content["xs"], dtype=float), "losses": losses, "barriers": barriers})
