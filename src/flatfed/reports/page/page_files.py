"""What pages are made of: the files beside this one, the drawing library, the look, and what a browser allows."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from importlib.resources import files
from pathlib import Path
from typing import Any

from flatfed.reports.figures.drawing.style import COLOURS, STYLES

DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
"""Line styles of the figures, as the drawing library calls them."""
REPORT_SCRIPTS = ("parts.js", "curves.js", "report.js")
REPORT_STYLES = ("look.css", "report.css")
"""Parts that pages share come first."""


def shared_file(name: str) -> str:
    """Return a file of the pages by its name."""
    return files("flatfed.reports.page").joinpath("files").joinpath(name).read_text(encoding="utf-8")


def report_script() -> str:
    """Return the script of the report's page."""
    return "\n".join(map(shared_file, REPORT_SCRIPTS))


def report_style() -> str:
    """Return the style of the report's page."""
    return "\n".join(map(shared_file, REPORT_STYLES))


def plotly_script() -> str:
    """Return the drawing library as plotly's package has it; the package itself is not imported."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    text = path.read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")


def look_of_pages() -> dict[str, Any]:
    """Return the colours and line styles of curves."""
    return {"colours": list(COLOURS), "dashes": [DASHES[style] for style in STYLES]}


def report_policy() -> str:
    """Return what the browser allows the report's page: its two scripts and no others, and no requests."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in (plotly_script(), report_script()))
    # Evaluation is for older releases of plotly, whose traces in three dimensions compile functions.
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
