"""Which data sets are in place, found out without loading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.acquiring.official import Official
from flatfed.data.catalogue import Source
from flatfed.data.storage.pool import Pool

IN_PLACE, BUILT_IN, INCOMPLETE, MISSING, OWN = "in place", "built in", "incomplete", "missing", "needs options"


@dataclass(frozen=True)
class Place:
    """Whether a data set is there, and what is lacking if not."""

    state: str
    lacking: str = ""


def place(source: Source, directory: DataDirectory, official: Official | None) -> Place:
    """Return whether a data set is in place: all official files, whole, where they are known, else what it looks for.

    That the files are whole is told from their lengths; nothing is read.
    """
    if not source.on_disk:
        return Place(BUILT_IN)
    try:
        probe(source, directory, {})
    except ConfigError as error:
        return Place(MISSING if " is missing" in str(error) else OWN, str(error))
    faults = official.faults(directory) if official is not None else {}
    return next((Place(INCOMPLETE, f"{file} {fault}") for file, fault in faults.items()), Place(IN_PLACE))


def probe(source: Source, directory: DataDirectory, options: Mapping[str, Any]) -> Pool | None:
    """Let a source load until it has found the first file or folder that it looks for.

    One that is missing, or a wrong option, is the source's error. A source that looks for nothing loads, and the data
    set is returned.
    """
    try:
        return source.open(_Stopping(directory.path), options)
    except _Found:
        return None


class _Found(Exception):
    """Ends a load at the first thing that was looked for and found."""


class _Stopping(DataDirectory):
    """A data directory in which nothing is read."""

    def found(self, place: Path) -> Path:
        """Stop at what is found."""
        raise _Found(str(place))
