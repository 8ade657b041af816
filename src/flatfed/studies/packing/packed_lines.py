"""The loss on lines between models, as a study's figures show it: what becomes of it in a packed study.

::

    lines/FIGURE-SETTING.json    the lines of a picture, with the barriers on them

A line belongs to two runs at once, so it is no part of a cell. Other figures are left out: they can be drawn from what
cells keep, or are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flatfed.flatness.drawable import Line
from flatfed.runs.records.files import FORMAT, read_json
from flatfed.studies.drawing.draw_figures import drawn_record
from flatfed.studies.drawing.picture_plan import plan_pictures
from flatfed.studies.run_study import RunningStudy

FOLDER = "lines"


@dataclass(frozen=True)
class LinesOfSeed:
    """The lines of one picture.

    Attributes:
        name: of the picture.
        setting: of the study.
        seed: of the runs whose models lie on the lines.
        lines: as they are drawn.
    """

    name: str
    setting: str
    seed: int
    lines: Sequence[Line]


def packed_lines(running: RunningStudy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the record of each picture that shows lines, with its file; those that are not drawn yet are left out."""
    for picture in plan_pictures(running).pictures:
        data = drawn_record(running, picture).get("data")
        lines = data.get("lines") if isinstance(data, Mapping) else None
        if not lines:
            continue
        record = {"name": picture.name, "setting": picture.setting, "seed": picture.cells[0].seed, "lines": lines}
        yield f"{FOLDER}/{picture.name}.json", {"format": FORMAT, **record}


def read_lines(source: Path) -> list[LinesOfSeed]:
    """Return the lines of a packed study, setting by setting and seed by seed."""
    records = [read_json(file) for file in sorted((source / FOLDER).glob("*.json"))]
    read = [
        LinesOfSeed(record["name"], record["setting"], record["seed"], [_line(line) for line in record["lines"]])
        for record in records
    ]
    return sorted(read, key=lambda one: (one.setting, one.name.partition("-")[0], one.seed))


def _line(content: Mapping[str, Any]) -> Line:
    losses = {name: np.array(values, dtype=float) for name, values in content["losses"].items()}
    arrays = {"xs": np.array(content["xs"], dtype=float), "losses": losses}
    return Line(**{**content, **arrays})
