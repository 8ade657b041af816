"""Which data sets are in place, found out without loading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.core.errors import ConfigError
from flatfed.data.catalogue.registry import Source
from flatfed.data.directory import DataDirectory, MissingData
from flatfed.data.storage.pool import Pool

IN_PLACE, BUILT_IN, INCOMPLETE, MISSING, OWN = "in place", "built in", "incomplete", "missing", "needs options"


@dataclass(frozen=True)
class Place:
    """Whether a data set is there.

    Args:
        state: one of the states above.
        fault: what is wrong with its files, where it is incomplete.
        error: why it cannot be loaded, where it is missing or needs options.
    """

    state: str
    fault: str = ""
    error: ConfigError | None = None

    @property
    def lacking(self) -> str:
        """What is lacking; nothing where it is in place."""
        if self.error is not None:
            return str(self.error)
        return self.fault


def place(source: Source, directory: DataDirectory) -> Place:
    """Return whether a data set is in place: all official files, whole, where they are known, else what it looks for.

    That the files are whole is seen from their lengths; nothing is read.
    """
    if not source.on_disk:
        return Place(BUILT_IN)
    try:
        probe(source, directory, {})
    # In this order: `MissingData` is a `ConfigError` too.
    except MissingData as error:
        return Place(MISSING, error=error)
    except ConfigError as error:
        return Place(OWN, error=error)
    return _by_official_files(source, directory)


def _by_official_files(source: Source, directory: DataDirectory) -> Place:
    if source.official is None:
        return Place(IN_PLACE)
    for file, fault in source.official.faults(directory).items():
        return Place(INCOMPLETE, f"{file} {fault}")
    return Place(IN_PLACE)


def probe(source: Source, directory: DataDirectory, options: Mapping[str, Any]) -> Pool | None:
    """Let a source load until it has found the first file or folder that it looks for.

    One that is missing, or a wrong option, is the source's error. A source that looks for nothing loads, and the data
    set is returned.
    """
    try:
        return source.open(_Stopping(directory.path), options)
    except _Found:
        return None


class _Found(BaseException):
    """Ends a load at the first thing that was looked for and found; no `except Exception` of a source keeps it."""


class _Stopping(DataDirectory):
    """A data directory in which nothing is read."""

    def found(self, place: Path) -> Path:
        """Stop at what is found."""
        raise _Found(str(place))
