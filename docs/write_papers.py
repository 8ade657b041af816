"""Write what each paper shows, as studies, and what it claims into its page in docs/papers.

The studies are those of the files in src/flatfed/studies/presets/files; a paper without a file has no table of them.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from flatfed.published.claims import claims

PAGES = Path(__file__).parent / "papers"
FILES = Path(__file__).parents[1] / "src" / "flatfed" / "studies" / "presets" / "files"
PAPERS = ("fedsam", "fedgf", "fedgloss", "fedwmsam", "fedvssam")
ITEMS = ("<!-- items: made by docs/write_papers.py -->\n", "<!-- end of items -->")
CLAIMS = ("<!-- claims: made by docs/write_papers.py -->\n", "<!-- end of claims -->")


def items(paper: str) -> dict[str, dict[str, Any]]:
    """Return the tables and figures of a paper by their ids; none where there is no file."""
    file = FILES / f"{paper}.yaml"
    if not file.exists():
        return {}
    content: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))["items"]
    return content


def cell(text: str) -> str:
    """Return a text as it stands in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def row(paper: str, id: str, item: dict[str, Any]) -> str:
    """Return the row of one table or figure."""
    shows = cell(item["shows"])
    if "nothing to run" in item:
        return f"| `{id}` | {shows} | – | nothing to run: {cell(item['nothing to run'])} | – |"
    command = f"`flatfed study run {paper}/{id}`"
    not_stated = " ".join(map(cell, item.get("not stated", []))) or "–"
    small = cell(item["small"]["note"]) if "small" in item else "as in the paper"
    return f"| `{id}` | {shows} | {command} | {small} | {not_stated} |"


def table_of_items(paper: str) -> str:
    """Return the table of what a paper shows."""
    shown = items(paper)
    if not shown:
        return "There is no file of studies for this paper."
    head = ["| id | shows | command | small scale | not stated, and what was chosen |", "|---|---|---|---|---|"]
    return "\n".join(head + [row(paper, id, item) for id, item in shown.items()])


def table_of_claims(paper: str) -> str:
    """Return the table of what a paper claims."""
    head = ["| claim | kind | statement |", "|---|---|---|"]
    made = [claim for claim in claims() if claim.paper == paper]
    return "\n".join(head + [f"| `{claim.id}` | {claim.kind} | {cell(claim.statement)} |" for claim in made])


def replaced(text: str, marks: tuple[str, str], table: str) -> str:
    """Return a text with another table between two marks."""
    begin, end = marks
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}"


def with_tables(paper: str, text: str) -> str:
    """Return a page with its tables as they are now."""
    text = replaced(text, ITEMS, table_of_items(paper))
    return replaced(text, CLAIMS, table_of_claims(paper))


if __name__ == "__main__":
    for paper in PAPERS:
        page = PAGES / f"{paper}.md"
        now = page.read_text(encoding="utf-8")
        if sys.argv[1:] != ["--check"]:
            page.write_text(with_tables(paper, now), encoding="utf-8")
        elif with_tables(paper, now) != now:
            sys.exit(f"{page} is out of date; run docs/write_papers.py")
