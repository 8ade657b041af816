"""Entering a study in its folder: what is there already and still matches goes on; what does not is told."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from flatfed.core.errors import PARAMETER, ConfigError
from flatfed.runs.directory import is_run
from flatfed.studies.cells import Cell, Resolver, description, differences
from flatfed.studies.folder import StudyFolder
from flatfed.studies.study import Reporting, Selection, Study

ROUNDS = "settings.rounds"
SHOWN = 5
"""How many cells that do not match are listed."""


def content_of(study: Study) -> dict[str, Any]:
    """Return a study, ready for JSON."""
    return asdict(study)


def recorded_study(folder: StudyFolder) -> Study:
    """Return the study that a folder holds."""
    record = folder.record()
    if "study" not in record:
        raise ConfigError(f"{folder.path} is not the folder of a study")
    content = dict(record["study"])
    select = content.pop("select")
    report = content.pop("report")
    grid = {variant: _tuples(searched) for variant, searched in content.pop("grid").items()}
    return Study(
        select=Selection(**_tuples(select)), report=Reporting(**_tuples(report)), grid=grid, **_tuples(content)
    )


def _tuples(content: dict[str, Any]) -> dict[str, Any]:
    """Return entries with tuples where JSON has lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def enter(study: Study, folder: StudyFolder, resolver: Resolver, cells: Sequence[Cell], command: str = "") -> list[str]:
    """Write what is studied into the folder, and return remarks; a cell that began as something else is an error."""
    _refuse_taken(folder)
    record = folder.record()
    before: dict[str, Any] = record.get("cells", {})
    now = {str(cell.path): description(resolver.comparison(cell)) for cell in cells}
    mismatches = {}
    for cell in cells:
        name = str(cell.path)
        folder.rounds[cell] = now[name]["settings"]["rounds"]
        if name in before and is_run(folder.run_of(cell)):
            changed = differences(before[name], now[name])
            if not _is_extended(changed):
                mismatches[cell] = changed
    if mismatches:
        raise ConfigError(_told(mismatches, folder), parameter="out")
    gone = [name for name in before if name not in now]
    folder.write_record({"study": content_of(study), "cells": before | now, "command": command})
    if not gone:
        return []
    return [f"{len(gone)} runs of before are not part of the study any more, such as {gone[0]}; they stay there"]


def _refuse_taken(folder: StudyFolder) -> None:
    """Refuse a folder that holds something else."""
    path = folder.path
    if folder.record() or not path.exists():
        return
    if not path.is_dir() or any(path.iterdir()):
        raise ConfigError(f"{path} exists and is not a study; choose another {PARAMETER}", parameter="out")


def _is_extended(changed: dict[str, tuple[Any, Any]]) -> bool:
    """Say whether a cell is the same as before, perhaps with more rounds."""
    if not changed:
        return True
    if set(changed) != {ROUNDS}:
        return False
    before, now = changed[ROUNDS]
    return bool(now > before)


def _told(mismatches: dict[Cell, dict[str, tuple[Any, Any]]], folder: StudyFolder) -> str:
    lines = []
    for cell, changed in list(mismatches.items())[:SHOWN]:
        words = ", ".join(f"{name} was {old!r} and is {new!r}" for name, (old, new) in changed.items())
        lines.append(f"  {cell.name}: {words}")
    if len(mismatches) > SHOWN:
        lines.append(f"  and {len(mismatches) - SHOWN} more")
    quoted = shlex.quote(str(folder.path))
    return (
        f"{len(mismatches)} cells of {folder.path} began as something else:\n"
        + "\n".join(lines)
        + f"\ngive what has changed a name of its own, remove these runs from {quoted}, or choose another {PARAMETER}"
    )
