"""Where data sets lie on disk: `--data-dir`, else the environment's FLATFED_DATA, else `~/.cache/flatfed/data`."""

from __future__ import annotations

import os
from pathlib import Path

from flatfed.core.errors import ConfigError

VARIABLE = "FLATFED_DATA"


class DataDirectory:
    """A directory that holds data sets in their official layouts."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path or os.environ.get(VARIABLE) or Path.home() / ".cache" / "flatfed" / "data").expanduser()

    def find(self, dataset: str, *places: str) -> Path:
        """Return the first of the places (files or folders, relative) that is there, or say where to put one."""
        for place in places:
            if (self.path / place).exists():
                return self.found(self.path / place)
        expected = " or ".join(str(self.path / place) for place in places)
        raise ConfigError(
            f"{dataset}: {expected} is missing; {_how_to_get(dataset)}, or name the folder that holds them with "
            "--data-dir"
        )

    def places(self, path: str) -> list[Path]:
        """Return where a file or folder of a user's own is looked for: as seen from here, then in this directory."""
        given = Path(path).expanduser()
        return list(dict.fromkeys([given, self.path / given]))

    def found(self, place: Path) -> Path:
        """Return a file or folder of a data set that is there."""
        return place


def _how_to_get(dataset: str) -> str:
    """Return what to do for the files of a data set: let a command download them, or fetch them by hand."""
    from flatfed.data.acquiring.official import OFFICIAL  # which itself knows data directories

    official = OFFICIAL.get(dataset)
    if official is None:
        return "put the files there"
    if not official.downloads:
        return f"fetch the official files from {official.home} and put them there"
    return f"get it with `flatfed data get {dataset}`, or put the official files there"
