"""The page itself: a template filled with data, with style, script and the drawing library inside the one file."""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from flatfed import __version__
from flatfed.core.errors import ConfigError
from flatfed.reports.figures.drawing.style import COLOURS, STYLES
from flatfed.reports.page.gather import Data, ViewSource, gather
from flatfed.runs.records.files import replace_file

PAGE = "report.html"
NEEDED = ("jinja2", "plotly")
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
"""Line styles of the figures, as the drawing library calls them."""
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""What could end a script or be read as markup, as JSON writes it too."""


def available() -> bool:
    """Say whether a page can be made: what it needs besides flatfed is there."""
    return not _missing()


def _missing() -> list[str]:
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def require_page() -> None:
    """Raise a `ConfigError` where no page can be made."""
    if not available():
        raise ConfigError(f"the report as a page needs {' and '.join(_missing())}; pip install 'flatfed[report]'")


def write_page(file: Path, title: str, sources: Sequence[ViewSource], studies: Sequence[Data] = ()) -> None:
    """Write the page of some results; the same results make the same file."""
    require_page()
    text = page_text(gather(title, sources, studies))
    # Replaced, not written to: it may be a link that somebody put there.
    replace_file(file, text.encode())


def page_text(data: Data) -> str:
    """Return the page: it holds all it needs, and the browser itself keeps it from asking anyone for anything."""
    library, script = _library(), _own("report.js")
    look = {"colours": list(COLOURS), "dashes": [DASHES[style] for style in STYLES]}
    text: str = _template().render(
        data=data,
        version=__version__,
        policy=_policy(library, script),
        style=_own("report.css"),
        library=library,
        script=script,
        json=script_json({"look": look, "views": [_drawn(view) for view in data["views"]]}),
    )
    return text


DRAWN = ("name", "curves", "flatness", "clients")


def _drawn(view: Data) -> Data:
    """Return what the script draws of a view; tables are in the page as they are."""
    return {name: view[name] for name in DRAWN}


def script_json(value: Any) -> str:
    """Return JSON that can stand in a script: whatever its texts hold, none of it ends the script."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character, code in UNSAFE.items():
        text = text.replace(character, code)
    return text


def _template() -> Any:
    jinja2 = importlib.import_module("jinja2")
    loader = jinja2.FunctionLoader(_own)
    # Names and settings are the user's words, and no markup; a word that is misspelled here is an error.
    environment = jinja2.Environment(
        autoescape=True, loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2")


def _own(name: str) -> str:
    return files("flatfed.reports.page").joinpath("files").joinpath(name).read_text(encoding="utf-8")


def _library() -> str:
    """Return the drawing library as plotly's package has it; the package itself is not imported."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    text = path.read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")


def _policy(*scripts: str) -> str:
    """Return what the browser allows the page: these scripts and no others, and no requests."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    # Evaluation is for older releases of plotly, whose traces in three dimensions compile functions.
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
