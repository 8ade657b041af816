"""What lies below a folder: runs, comparisons and studies, each with an id; links are not followed.

An id is a hash of the path below the folder. Requests name ids, and ids are looked up here: no request holds a path.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flatfed.core.configuration.checking import escaped
from flatfed.core.errors import CheckpointError
from flatfed.runs.records.folders import is_run

RUN, COMPARISON, STUDY = "config.json", "comparison.json", "study.json"
"""The files that say what a folder is."""
LETTERS = 16
"""Of an id."""


@dataclass(frozen=True)
class FolderPlace:
    """A folder that is something."""

    path: Path
    name: str
    """The path below the folder that is watched, fit to be shown."""

    @functools.cached_property
    def id(self) -> str:
        """What requests call it."""
        return id_of(self.path)


def id_of(path: Path) -> str:
    """Return the id of a path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:LETTERS]


@dataclass(frozen=True)
class Tree:
    """What was found, by id."""

    runs: dict[str, FolderPlace] = field(default_factory=dict)
    comparisons: dict[str, FolderPlace] = field(default_factory=dict)
    studies: dict[str, FolderPlace] = field(default_factory=dict)
    unreadable: dict[str, tuple[FolderPlace, str]] = field(default_factory=dict)
    """Folders that could not be looked into, with the reason."""

    def runs_below(self, place: FolderPlace) -> list[str]:
        """Return the ids of the runs below a folder."""
        return [id for id, run in self.runs.items() if run.path.is_relative_to(place.path)]


def walk(root: Path) -> Tree:
    """Look through a folder; hidden folders and links are left out, and a run holds no other."""
    tree = Tree()
    left = [root]
    while left:
        path = left.pop()
        place = FolderPlace(path, _name(path, root))
        try:
            found = list(_entries(path))
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError as error:
            tree.unreadable[place.id] = place, f"the folder cannot be read: {error.strerror}"
            continue
        names = {entry.name for entry in found}
        if RUN in names and is_run(path):
            tree.runs[place.id] = place
            continue
        if STUDY in names:
            tree.studies[place.id] = place
        elif COMPARISON in names:
            tree.comparisons[place.id] = place
        left += [path / entry.name for entry in found if _is_folder(entry)]
    return tree


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _name(path: Path, root: Path) -> str:
    return escaped(str(path.relative_to(root) if path != root else root.name))


def links_out(path: Path, root: Path) -> Path | None:
    """Return a link below a folder that leads out of `root`, if there is one."""
    home = root.resolve()
    for place, folders, files in os.walk(path):
        for name in (*folders, *files):
            entry = Path(place) / name
            if _is_link(entry) and not entry.resolve().is_relative_to(home):
                return entry
    return None


def refuse_links_out(path: Path, root: Path) -> None:
    """Refuse a folder below which a link leads out of `root`."""
    link = links_out(path, root)
    if link is not None:
        raise CheckpointError(f"{link} is a link that leads out of the folder; put the file itself there")


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except FileNotFoundError:  # a run that goes on puts files in the place of others
        return False
