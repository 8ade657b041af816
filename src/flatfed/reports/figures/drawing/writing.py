"""The files of figures: which there are, how sharp they are, and how they are written."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatfed.runs.records.files import replace_file

DPI = 300
"""Dots per inch of pictures: what journals ask for."""
ENDINGS = (".png", ".pdf")
"""What every figure is written as: for the screen, and for a paper."""
WITH_SVG = (*ENDINGS, ".svg")
"""What the figures of runs, comparisons and measurements are written as: words of an SVG can be searched."""
WRITTEN: dict[str, Any] = {
    "svg.hashsalt": "flatfed",  # the same figure is the same file
    # TrueType, because many journals refuse Type 3 fonts.
    "pdf.fonttype": 42,
}
"""Settings that matter when a file is written, of all figures alike."""
UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


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
    endings: tuple[str, ...] = WITH_SVG

    def main(self, own: str) -> str:
        """Return the name of the drawing's main picture; `own` is its own name."""
        return self.name or own

    def part(self, own: str) -> str:
        """Return the name of a picture that is one of several."""
        return f"{self.name}-{own}" if self.name else own

    def of(self, picture: str) -> list[Path]:
        """Return the files of a picture, by the name that it was given here."""
        return [self.folder / f"{picture}{ending}" for ending in self.endings]


def named_files(file: Path) -> list[Path]:
    """Return the files of a figure that somebody named: a PNG has its PDF beside it."""
    if file.suffix.lower() != ".png":
        return [file]
    return [file, file.with_suffix(".pdf")]


def save(figure: Any, files: Sequence[Path]) -> None:
    """Write a figure as it is into each of the files; the ending decides the format."""
    for file in files:
        _write(figure, Path(file))


def _write(figure: Any, file: Path) -> None:
    """Replace a file by a figure; the old one may be a link that somebody put beside a run."""
    from matplotlib import style

    picture = io.BytesIO()
    kind = file.suffix.lower()
    with style.context(WRITTEN):
        # Without a date, so that the same figure is the same file.
        figure.savefig(picture, format=kind.removeprefix("."), dpi=DPI, metadata=UNDATED.get(kind))
    replace_file(file, picture.getvalue())
