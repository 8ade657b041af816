"""What is known of a folder, and what changed since: a look is a `stat` of each file, and reads only what is new.

Whoever follows keeps the number of the last change that it knows, and asks for what came after it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flatfed.dashboard.entries import Entry, command_of, entry_of, unreadable
from flatfed.dashboard.run_columns import Position, RunColumns
from flatfed.dashboard.sealed_reading import FileState, state_of
from flatfed.dashboard.study_grid import StudyGrid
from flatfed.dashboard.tree import FolderPlace, Tree, walk

FILES = ("config.json", "status.json", "history.jsonl")
WALK_SECONDS = 3.0
"""Between two walks through the folder; a walk that takes long comes more seldom."""
WALK_SHARE = 20
"""A walk takes at most one part in this number of the time."""
LOCK_SECONDS = 2.0
"""Between two looks at the locks of runs that say that they are running."""
MOST_COLUMNS = 64
"""Runs whose curves are kept in memory."""


@dataclass
class KnownRun:
    """A run as it was last seen."""

    place: FolderPlace
    states: tuple[FileState | None, ...]
    config: dict[str, Any] | None
    entry: Entry
    version: int


@dataclass
class Changes:
    """What changed since a version."""

    version: int
    entries: list[Entry] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    groups: list[dict[str, Any]] | None = None
    studies: list[dict[str, Any]] = field(default_factory=list)


class Watch:
    """The runs, comparisons and studies below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.boot = secrets.token_hex(8)
        """Another for each start of the server: versions of before mean nothing."""
        self.version = 0
        self._lock = threading.Lock()
        self._looking, self._studying = threading.Lock(), threading.Lock()
        self._runs: dict[str, KnownRun] = {}
        self._gone: dict[str, int] = {}
        self._tree = Tree()
        self._tree_version = 0
        self._group_list: list[dict[str, Any]] = []
        self._walk_due = self._lock_due = 0.0
        self._grids: dict[str, StudyGrid] = {}
        self._columns: OrderedDict[str, RunColumns] = OrderedDict()

    def look(self) -> None:
        """See what changed, in whatever thread; two never look at once."""
        with self._looking:
            now = time.monotonic()
            is_thorough = now >= self._walk_due
            if is_thorough:
                self._walk()
            are_locks_due = now >= self._lock_due
            if are_locks_due:
                self._lock_due = now + LOCK_SECONDS
            for place in list(self._tree.runs.values()):
                # What does not run is looked at with the folder: of many runs most do not.
                if is_thorough or self._is_running(place):
                    self._look_at(place, are_locks_due)

    def look_at_studies(self) -> None:
        """See what changed in studies; the first time this loads what studies need, which takes seconds."""
        with self._studying:
            for id, place in self._tree.studies.items():
                grid = self._grids.get(id) or StudyGrid(place, self.root)
                cells = grid.read(self._statuses_below(place.path))
                with self._lock:
                    self._grids[id] = grid
                    if cells is not None and grid.note(cells, self.version + 1):
                        self.version += 1

    def _statuses_below(self, path: Path) -> dict[str, str]:
        with self._lock:
            every = list(self._runs.values())
        return {known.place.id: known.entry["status"] for known in every if known.place.path.is_relative_to(path)}

    def _walk(self) -> None:
        # Of this thread's own time: a busy machine is no reason to look more seldom.
        begun, worked = time.monotonic(), time.thread_time()
        tree = walk(self.root)
        taken = time.thread_time() - worked
        self._walk_due = begun + max(WALK_SECONDS, WALK_SHARE * taken)
        groups = self._groups(tree) if tree != self._tree else None
        with self._lock:
            if groups is not None:
                self._tree, self._group_list = tree, groups
                self.version += 1
                self._tree_version = self.version
            for id in self._runs.keys() - tree.runs.keys() - tree.unreadable.keys():
                del self._runs[id]
                self._columns.pop(id, None)
                self._gone[id] = self.version
            self._grids = {id: grid for id, grid in self._grids.items() if id in tree.studies}
        for place, reason in tree.unreadable.values():
            self._note(place, (), None, unreadable(place, reason))

    def _is_running(self, place: FolderPlace) -> bool:
        known = self._runs.get(place.id)
        return known is None or known.entry["status"] == "running"

    def _look_at(self, place: FolderPlace, are_locks_due: bool) -> None:
        known = self._runs.get(place.id)
        states = tuple(state_of(place.path / name) for name in FILES)
        is_new = known is None or known.states != states
        if not is_new and not (are_locks_due and known is not None and known.entry["status"] == "running"):
            return
        kept = known.config if known is not None and known.states[:1] == states[:1] else None
        entry, config = entry_of(place, self.root, kept)
        self._note(place, states, config, entry)

    def _note(
        self, place: FolderPlace, states: tuple[FileState | None, ...], config: dict[str, Any] | None, entry: Entry
    ) -> None:
        with self._lock:
            known = self._runs.get(place.id)
            if known is not None and (known.states, known.entry) == (states, entry):
                return
            self.version += 1
            self._gone.pop(place.id, None)
            self._runs[place.id] = KnownRun(place, states, config, entry, self.version)
            if known is not None and known.config != config:
                self._columns.pop(place.id, None)

    def changes_since(self, version: int) -> Changes:
        """Return what changed since a version; 0 for all there is."""
        with self._lock:
            changes = Changes(self.version)
            changes.entries = [known.entry for known in self._runs.values() if known.version > version]
            changes.gone = [id for id, gone in self._gone.items() if gone > version]
            if self._tree_version > version:
                changes.groups = self._group_list
            changes.studies = [piece for grid in self._grids.values() if (piece := grid.changes_since(version))]
            return changes

    def _groups(self, tree: Tree) -> list[dict[str, Any]]:
        """Return comparisons and studies, with their runs and the commands that made them."""
        kinds = {"comparison": tree.comparisons, "study": tree.studies}
        return [
            {"kind": kind, **self._group(place, tree)}
            for kind, places in kinds.items()
            for place in sorted(places.values(), key=lambda place: place.name)
        ]

    def _group(self, place: FolderPlace, tree: Tree) -> dict[str, Any]:
        command = command_of(place.path, self.root)
        return {"id": place.id, "name": place.name, "runs": tree.runs_below(place), "command": command}

    def known(self, id: str) -> KnownRun | None:
        """Return a run by its id, if there is such a run and it can be read."""
        known = self._runs.get(id)
        return known if known is not None and known.config is not None else None

    def path_of(self, id: str) -> Path | None:
        """Return the folder of a run, comparison or study by its id."""
        for places in (self._tree.runs, self._tree.comparisons, self._tree.studies):
            if id in places:
                return places[id].path
        return None

    def columns(self, id: str, position: Position | None) -> tuple[Position | None, dict[str, Any] | None]:
        """Return a run's curves since a position, and the position now."""
        known = self.known(id)
        if known is None or known.config is None:
            return position, None
        with self._lock:
            columns = self._columns.get(id)
            if columns is None:
                columns = self._columns[id] = RunColumns(known.place.path, self.root, known.config)
                position = None
            self._columns.move_to_end(id)
            while len(self._columns) > MOST_COLUMNS:
                self._columns.popitem(last=False)
        try:
            return columns.changes(position)
        except Exception:  # replaced or removed a moment ago, or of anybody: the other runs are shown all the same
            return position, None

    def config_of(self, id: str) -> dict[str, Any] | None:
        """Return a run's configuration."""
        known = self.known(id)
        return None if known is None else known.config
