"""The differences that the pages of the methods name: all of them, grouped by whose code they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatfed.reports.tables.grid import markdown_table, rule

SECTION = "## What differs from the authors' code\n"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
LABEL = re.compile(r"^([A-Z][\w ]{2,30})\.(?= )")
"""A few words before a point; some pages have them in bold."""

TABLED, AUTHORS, NO_CODE = "In the tables above", "Code of the authors", "No code is known"
OTHERS, OURS = "Code of others", "Rules of flatfed"
GROUPS = {
    TABLED: "A row of a table above is about each of these points.",
    AUTHORS: (
        "These points name the code of the method's own authors. How much they matter is not known where no table "
        "above has them. Some have no switch in flatfed. Some concern data or participation. Some have no effect where "
        "clients have equally many examples."
    ),
    NO_CODE: "The authors released no code, or we know of none. These points say how we read the paper.",
    OTHERS: (
        "These points name only code of others, who often use the method as a baseline. Many are errors of that code, "
        "not of the paper or of its authors."
    ),
    OURS: "These points name no code. They say what flatfed does.",
}

UNRELEASED = re.compile(r"[Nn]o (released )?code|not known to us")
"""In what stands before the points of a page: there is nothing to compare with."""
AUTHORS_CODE = re.compile(
    r"\b([Tt]he|That|released) code\b|\bsame code base\b|\bshipped script\b|\bauthors' (older )?(code|library|script)\b"
)
"""What pages call the code of the method's own authors."""
AUTHORS_NAMES = {
    "client-optimisers": re.compile(r"\bFedSAM (code|and)\b|\bVaSSO's code\b|\bFriendly SAM's\b"),
    "fedsmoo": re.compile(r"\bFL-Simulator\b"),
    "fedspeed": re.compile(r"\bFL-Simulator\b"),
}
"""By page, what else it calls them."""
OTHERS_CODE = re.compile(
    r"\bFL-(Simulator|SAM)\b|\bFedLab\b|\bFlower\b|\bpfl-research\b|\bFed\w+ (code|repository)\b"
    r"|\b([Ss]ome|other|third-party|Usual training) code\b|\banother library\b"
)
"""What pages call all other code."""


@dataclass(frozen=True)
class DifferencePoint:
    """What a page says of one difference.

    Attributes:
        page: the page's file, without its ending.
        method: what the page is about.
        text: in one line, without links.
        group: one of `GROUPS`.
    """

    page: str
    method: str
    text: str
    group: str


def page_differences(folder: Path, tabled: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the points of all pages in a folder as Markdown, each once, grouped, with links to the pages.

    Args:
        folder: the pages of the methods.
        tabled: how the points begin that the tables of the ledger are about, by the page that has them.
    """
    points = [point for page in sorted(folder.glob("[a-z]*.md")) for point in page_points(page, tabled or {})]
    if not points:
        return ""
    parts = [_overview(points)]
    for group, lead in GROUPS.items():
        lines = _lines([point for point in points if point.group == group])
        if lines:
            parts += [f"### {group}", lead, "\n".join(lines)]
    return "\n\n".join(parts)


def page_points(page: Path, tabled: Mapping[str, Sequence[str]]) -> Iterator[DifferencePoint]:
    """Yield the points of a page: of its list, and what stands below the list."""
    text = page.read_text(encoding="utf-8")
    method = re.sub(r" \(.*", "", text.partition("\n")[0].removeprefix("# "))
    lead, *parts = re.split(r"^- ", text.partition(SECTION)[2].partition("\n## ")[0], flags=re.MULTILINE)
    begins = tuple(tabled.get(page.stem, ()))
    for paragraph in filter(str.strip, "\n\n".join(parts).split("\n\n")):
        said = LABEL.sub(r"**\1.**", LINK.sub(r"\1", " ".join(paragraph.split())))
        yield DifferencePoint(page.stem, method, said, _group(page.stem, lead, said, begins))


def _group(page: str, lead: str, text: str, begins: tuple[str, ...]) -> str:
    if text.replace("**", "").startswith(begins):
        return TABLED
    if UNRELEASED.search(lead):
        return NO_CODE
    if _names_authors_code(page, text):
        return AUTHORS
    return OTHERS if OTHERS_CODE.search(text) else OURS


def _names_authors_code(page: str, text: str) -> bool:
    names = AUTHORS_NAMES.get(page)
    return bool(AUTHORS_CODE.search(text) or (names and names.search(text)))


def _overview(points: Sequence[DifferencePoint]) -> str:
    """Return a table of the groups, with how many points of how many pages each has."""
    rows = []
    for group in GROUPS:
        inside = [point for point in points if point.group == group]
        if inside:
            link = f"[{group}](#{group.lower().replace(' ', '-')})"
            rows.append([link, str(len(inside)), str(len({point.page for point in inside}))])
    return markdown_table(["group", "points", "pages"], [rule(words=place == 0) for place in range(3)], rows)


def _lines(points: Sequence[DifferencePoint]) -> list[str]:
    """Return a line for each text, with the links of all methods whose pages say so."""
    links: dict[str, list[str]] = {}
    for point in points:
        links.setdefault(point.text, []).append(f"[{point.method}](../algorithms/{point.page}.md)")
    return [f"- {', '.join(methods)}: {text}" for text, methods in links.items()]
