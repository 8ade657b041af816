"""Write the evidence: docs/evidence from the compact results in studies, its pictures, and a part of the README."""

import sys
import tempfile
from pathlib import Path

from flatfed.studies.evidence.make_pages import Evidence

ROOT = Path(__file__).parents[1]
STUDIES, METHODS = ROOT / "studies", ROOT / "docs" / "algorithms"
PAGES, PICTURES = ROOT / "docs" / "evidence", ROOT / "docs" / "pictures" / "evidence"
README = ROOT / "README.md"
BEGIN, END = "<!-- evidence: made by docs/write_evidence.py -->\n", "<!-- end of evidence -->"


def with_section(text: str, section: str) -> str:
    """Return the README with what was found as it is now."""
    before, _, rest = text.partition(BEGIN)
    inside = f"\n{section}\n\n" if section else ""
    return f"{before}{BEGIN}{inside}{END}{rest.partition(END)[2]}"


def texts(evidence: Evidence) -> dict[Path, str]:
    """Return the text of every file that is made."""
    pages = {PAGES / name: text for name, text in evidence.pages().items()}
    return pages | {README: with_section(README.read_text(encoding="utf-8"), evidence.readme())}


def stale(evidence: Evidence) -> list[Path]:
    """Return the files that are not what the results make of them."""
    wanted = texts(evidence)
    there = {page: page.read_text(encoding="utf-8") if page.exists() else "" for page in wanted}
    return [page for page in wanted if there[page] != wanted[page]]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as workplace:
        made = Evidence(STUDIES, Path(workplace), METHODS)
        if sys.argv[1:] == ["--check"]:
            old = stale(made)
            sys.exit(f"{old[0]} is out of date; run docs/write_evidence.py" if old else 0)
        PAGES.mkdir(exist_ok=True)
        for page, text in texts(made).items():
            page.write_text(text, encoding="utf-8")
        kept = made.draw(PICTURES)
        for picture in PICTURES.glob("*.png"):
            if picture not in kept:
                picture.unlink()
