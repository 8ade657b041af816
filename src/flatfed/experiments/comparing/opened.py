"""The run directories of a comparison, each opened once however much is done with it."""

from __future__ import annotations

from pathlib import Path

from flatfed.runs.directory import RunDirectory


class OpenedRuns:
    """Opens run directories and keeps them open; `trust` says that the code that they name may be imported."""

    def __init__(self, trust: bool = False) -> None:
        self._trust = trust
        self._opened: dict[Path, RunDirectory] = {}

    def at(self, path: Path) -> RunDirectory:
        """Return the run in `path`; it is read again only where another process has continued it meanwhile."""
        directory = self._opened.get(path)
        if directory is None or directory.was_continued():
            directory = RunDirectory.open(path, self._trust)
            self._opened[path] = directory
        return directory

    def keep(self, directory: RunDirectory) -> None:
        """Have a run as it is after it was continued here: what was written need not be read."""
        self._opened[directory.path] = directory
