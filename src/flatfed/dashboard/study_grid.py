"""A study's grid: methods x settings, each place with the cells of its seeds and how they stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flatfed.core.configuration.checking import escaped
from flatfed.dashboard.sealed_reading import FileState, read_record, state_of
from flatfed.dashboard.tree import STUDY, FolderPlace, id_of, refuse_links_out

if TYPE_CHECKING:
    from flatfed.studies.cells import Cell
    from flatfed.studies.run_study import RunningStudy

OPEN = "open"
CellData = dict[str, Any]
Found = tuple[dict[str, Any], dict[str, CellData]]
"""What stands above the grid, and its cells by key."""
Seen = tuple[tuple[FileState | None, ...], dict[str, str]]


class StudyGrid:
    """The cells of a study as they were last seen; each has the version of its last change."""

    def __init__(self, place: FolderPlace, root: Path) -> None:
        self._place, self._root = place, root
        self._running: RunningStudy | None = None
        self._record_state: tuple[FileState | None, ...] = ()
        self._seen: Seen | None = None
        self._head: dict[str, Any] = {}
        self._head_version = 0
        self._cells: dict[str, CellData] = {}
        self._versions: dict[str, int] = {}

    def read(self, statuses: dict[str, str]) -> Found | None:
        """Read how the cells stand, where files changed; None where none did. `statuses` are those of the runs."""
        files = (self._place.path / name for name in (STUDY, "failures", "begun"))
        seen: Seen = tuple(map(state_of, files)), statuses
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            return self._read(statuses)
        except Exception as error:  # a study may come from anybody, and must not take the others with it
            return self._about(f"it cannot be read: {error}"), {}

    def _about(self, problem: str = "", **more: Any) -> dict[str, Any]:
        return {"id": self._place.id, "name": self._place.name, "problem": escaped(problem)[:300], **more}

    def _read(self, statuses: dict[str, str]) -> Found:
        from flatfed.studies.entering import recorded_study
        from flatfed.studies.folder import StudyFolder
        from flatfed.studies.run_study import RunningStudy

        record = read_record(self._place.path / STUDY, self._root)
        state = state_of(self._place.path / STUDY), state_of(self._place.path / "failures")
        if self._running is None or state != self._record_state:
            refuse_links_out(self._place.path, self._root)
            study = recorded_study(StudyFolder(self._place.path))
            self._running, self._record_state = RunningStudy(study, self._place.path), state
        running = self._running
        cells = running.cells()
        head = self._about(
            title=escaped(running.study.title or self._place.name),
            command=str(record.get("command") or ""),
            methods=list(map(escaped, running.study.methods)),
            settings=list(map(escaped, running.study.settings)),
            seeds=[str(seed) for seed in running.study.seeds],
            count=running.count,
        )
        return head, {cell.key: self._cell(running, cell, statuses) for cell in cells}

    def _cell(self, running: RunningStudy, cell: Cell, statuses: dict[str, str]) -> CellData:
        standing = running.folder.standing(cell)
        run = id_of(running.folder.run_of(cell))
        state: str = standing.state
        if state == "waiting":
            state = OPEN
        if state == "begun":
            state = statuses.get(run, OPEN)
        elif statuses.get(run) == "running":
            # It had ended and is tried again: what is known of it by now is not kept.
            state, self._running = "running", None
        return {
            "key": escaped(cell.key),
            "method": escaped(cell.variant),
            "setting": escaped(cell.setting),
            "seed": str(cell.seed),
            "chooses": cell.chooses,
            "state": state,
            "reason": escaped(standing.reason.partition("\n")[0])[:300],
            "run": run if run in statuses else "",
        }

    def note(self, found: Found, version: int) -> bool:
        """Take what was read, under a version; say whether anything changed."""
        head, cells = found
        is_head_new = head != self._head
        if is_head_new:
            self._head, self._head_version = head, version
        changed = [key for key, cell in cells.items() if self._cells.get(key) != cell]
        self._versions = {key: version if key in changed else self._versions[key] for key in cells}
        self._cells = cells
        return is_head_new or bool(changed)

    def changes_since(self, version: int) -> dict[str, Any] | None:
        """Return the head and the cells that changed since a version; None where nothing did."""
        cells = [self._cells[key] for key, own in self._versions.items() if own > version]
        if not cells and self._head_version <= version:
            return None
        return {**self._head, "cells": cells, "whole": self._head_version > version}
