"""The differences from authors' code that the pages of the methods name: all of them, measured or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

SECTION = "## What differs from the authors' code\n"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def page_differences(folder: Path) -> str:
    """Return the points of all pages in a folder as Markdown, below the name of each method."""
    parts = []
    for page in sorted(folder.glob("[a-z]*.md")):
        text = page.read_text(encoding="utf-8")
        points = list(_points(text.partition(SECTION)[2].partition("\n## ")[0]))
        if points:
            title = text.partition("\n")[0].removeprefix("# ")
            parts += [f"### {title}", f"[`{page.stem}`](../algorithms/{page.name})", "\n".join(points)]
    return "\n\n".join(parts)


def _points(section: str) -> Iterator[str]:
    """Yield the points of a list, each in one line and without links, which would lead elsewhere from here."""
    for part in re.split(r"^- ", section, flags=re.MULTILINE)[1:]:
        point = part.partition("\n\n")[0]
        yield "- " + LINK.sub(r"\1", " ".join(point.split()))
