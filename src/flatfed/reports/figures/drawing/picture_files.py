"""Where the pictures of one drawing go: a folder, what their names begin with, and their formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PictureFiles:
    """The files of a drawing, which may have several pictures.

    Attributes:
        folder: where they lie.
        name: what all of them are called by; where it is empty each has a name of its own.
        endings: their formats.
    """

    folder: Path
    name: str = ""
    endings: tuple[str, ...] = (".png", ".svg")

    def main(self, own: str) -> str:
        """Return the name of the drawing's main picture; `own` is its own name."""
        return self.name or own

    def part(self, own: str) -> str:
        """Return the name of a picture that is one of several."""
        return f"{self.name}-{own}" if self.name else own

    def of(self, picture: str) -> list[Path]:
        """Return the files of a picture, by the name that it was given here."""
        return [self.folder / f"{picture}{ending}" for ending in self.endings]
