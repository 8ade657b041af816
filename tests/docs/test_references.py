"""Generated pages are current, nothing public is missing in them, and every page stands in a section of the site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import flatfed as ff

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTIONS = ("index", "tutorials", "how-to", "methods", "reference", "explanation")


SCRIPTS = [str(DOCS / f"write_{name}.py") for name in ("api", "choosing", "claims", "cli", "hours")]
CHECK = f"""
import runpy, sys
sys.path.insert(0, {str(DOCS)!r})
sys.argv[1:] = ["--check"]
for script in {SCRIPTS}:
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
"""


def test_generated_pages_are_current() -> None:
    # In a process of its own: here, other tests register methods of theirs.
    checked = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    ours = [name for name in dir(ff) if getattr(getattr(ff, name), "__module__", "").startswith("flatfed.")]
    assert [name for name in ours if f"ff.{name}" not in page] == []


def test_every_page_stands_in_a_section() -> None:
    listed = set(SECTIONS)
    for section in SECTIONS:
        listed |= set((DOCS / f"{section}.md").read_text(encoding="utf-8").split())
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in [*DOCS.glob("*.md"), *DOCS.glob("notebooks/*")]}
    assert pages - listed == set()
