"""Where data sets lie on disk: `--data-dir`, else the environment's FLATFED_DATA, else `~/.cache/flatfed/data`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flatfed.core.errors import PARAMETER, ConfigError

VARIABLE = "FLATFED_DATA"


class MissingData(ConfigError):
    """None of the files or folders is there that a data set looks for.

    Attributes:
        dataset: the id of the data set.
        places: the files or folders, any of which would do.
        advice: what to do to get them.
    """

    def __init__(self, dataset: str, places: tuple[Path, ...], advice: str = "put the files there") -> None:
        self.dataset, self.places, self.advice = dataset, places, advice
        super().__init__(
            f"{dataset}: {self.wanted} is missing; {advice}, or name the folder that holds them with {PARAMETER}",
            parameter="data_dir",
        )

    @property
    def wanted(self) -> str:
        """The files or folders in words."""
        return " or ".join(map(str, self.places))

    def __reduce__(self) -> Any:
        """Let it come back from another process as it is."""
        return type(self), (self.dataset, self.places, self.advice)


class MissingOption(ConfigError):
    """A data set has an option that must be given, and it was not.

    Attributes:
        dataset: the id of the data set.
        request: what the option is to say.
        option: its name.
        example: a value that it may have.
    """

    def __init__(self, dataset: str, request: str, option: str, example: str) -> None:
        self.dataset, self.request, self.option, self.example = dataset, request, option, example
        super().__init__(f"{dataset}: {request}, {PARAMETER}={example}", parameter=f"data.{option}")

    @property
    def assignment(self) -> str:
        """The option with the example as its value."""
        return f"data.{self.option}={self.example}"

    def __reduce__(self) -> Any:
        """Let it come back from another process as it is."""
        return type(self), (self.dataset, self.request, self.option, self.example)


class DataDirectory:
    """A directory that holds data sets in their official layouts."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path or os.environ.get(VARIABLE) or Path.home() / ".cache" / "flatfed" / "data").expanduser()

    def find(self, dataset: str, *places: str) -> Path:
        """Return the first of the places (files or folders, relative) that is there; none is a `MissingData`."""
        candidates = tuple(self.path / place for place in places)
        for candidate in candidates:
            if candidate.exists():
                return self.found(candidate)
        raise MissingData(dataset, candidates)

    def find_own(self, dataset: str, path: str, option: str = "path", example: str = "folder") -> Path:
        """Return a path that a user gave as an option: as seen from here, or else in this directory."""
        if not path:
            raise MissingOption(dataset, "say where the data are", option, example)
        for place in self.places(path):
            if place.exists():
                return self.found(place)
        raise ConfigError(
            f"{dataset}: {path} is missing ({PARAMETER}: seen from here, or in {self.path})", parameter=f"data.{option}"
        )

    def places(self, path: str) -> list[Path]:
        """Return where a file or folder of a user's own is looked for: as seen from here, then in this directory."""
        named = Path(path).expanduser()
        # An absolute path is the same in both places.
        return list(dict.fromkeys([named, self.path / named]))

    def found(self, place: Path) -> Path:
        """Return a file or folder of a data set that is there; a subclass may stop here."""
        return place
