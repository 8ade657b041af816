"""Packing a study: the compact result of each cell that has ended, in a file of its own.

::

    study.json                                 what is studied
    cells/SETTING/VARIANT/lr=0.1/seed-0.json   what is reported
    choosing/...                               what chose parameters
    lines/FIGURE-SETTING-seed-0.json           the loss between models, where a figure shows it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.runs.packed import is_packed
from flatfed.runs.records.files import FORMAT, read_json, replace_file, sealed
from flatfed.studies.cells import Cell
from flatfed.studies.entering import content_of
from flatfed.studies.folder import FILE
from flatfed.studies.packing.packed_cell import packed_cell
from flatfed.studies.packing.packed_lines import FOLDER as LINES
from flatfed.studies.packing.packed_lines import outdated_lines, packed_lines
from flatfed.studies.packing.without_places import without_places
from flatfed.studies.run_study import RunningStudy


@dataclass
class Packed:
    """What packing has done.

    Attributes:
        new: cells that were not there before.
        renewed: cells of which there is more by now: measurements, or a failure that was mended.
        unchanged: how many were there as they are.
        left: how many have not ended, those included whose parameters are not chosen yet.
        size: bytes of all that is there of them.
    """

    new: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    unchanged: int = 0
    left: int = 0
    size: int = 0


def pack_study(running: RunningStudy, destination: Path) -> Packed:
    """Write the compact results of all cells that have ended, and return what was done."""
    destination.mkdir(parents=True, exist_ok=True)
    packed = Packed(left=running.count)
    content = without_places(content_of(running.study))
    _write(destination / FILE, {"format": FORMAT, "study": content})
    for cell in running.cells():
        standing = running.folder.standing(cell)
        if not standing.has_ended:
            continue
        packed.left -= 1
        if is_packed(running.folder.run_of(cell)):
            _keep(cell, destination, packed)
            continue
        _pack(cell, packed_cell(running.folder, cell, standing), destination, packed)
    _pack_lines(running, destination)
    return packed


def _pack_lines(running: RunningStudy, destination: Path) -> None:
    records = dict(packed_lines(running))
    for name, record in records.items():
        _write(destination / LINES / f"{name}.json", record)
    for file in outdated_lines(running, destination, records):
        file.unlink()


def _pack(cell: Cell, record: Mapping[str, Any], destination: Path, packed: Packed) -> None:
    file = file_of(destination, str(record["path"]))
    is_there = file.exists()
    if is_there:
        _refuse_other(file, record)
    if _write(file, record):
        (packed.renewed if is_there else packed.new).append(cell.name)
    else:
        packed.unchanged += 1
    packed.size += file.stat().st_size


def _keep(cell: Cell, destination: Path, packed: Packed) -> None:
    """Leave the compact result of a cell that was unpacked from it: there is nothing newer."""
    file = file_of(destination, cell.path.as_posix())
    if not file.exists():
        raise ConfigError(f"{cell.name} was unpacked, and is not in {destination}; pack into where it comes from")
    packed.unchanged += 1
    packed.size += file.stat().st_size


def file_of(destination: Path, path: str) -> Path:
    """Return the file of a cell by its run directory within the study's folder."""
    return destination / f"{path}.json"


def _refuse_other(file: Path, record: Mapping[str, Any]) -> None:
    """Refuse to replace the result of another run of the same cell."""
    before = read_json(file).get("config", {}).get("run")
    now = record.get("config", {}).get("run")
    if before is not None and before != now:
        raise ConfigError(f"{file} is of another run of this cell; pack into another folder, or remove it first")


def _write(file: Path, record: Mapping[str, Any]) -> bool:
    """Write a record with its seal, an entry in each line; say whether that changed anything."""
    lines = [f"{json.dumps(name)}: {_compact(value)}" for name, value in sealed(record).items()]
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    if file.exists() and file.read_bytes() == data:
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, data)
    return True


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
